#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels.hpp"
#include "launch_kernel.hpp"

namespace fmhax::train {
namespace {

Problem capacity(const BatchShape& shape, std::int64_t heads, std::int64_t hdim, DataType dtype) {
  return {.dtype = dtype,
          .is_group_mode = true,
          .is_deterministic = true,
          .batch = shape.max_documents,
          .nhead_q = heads,
          .nhead_k = heads,
          .hdim_q = hdim,
          .hdim_v = hdim,
          .max_seqlen_q = shape.longest,
          .max_seqlen_k = shape.longest,
          .total_q = shape.tokens,
          .total_k = shape.tokens,
          .mask = Mask::causal()};
}

void enqueue_narrow(const DeviceBuffer<float>& from, const DeviceBuffer<std::uint16_t>& to, hipStream_t stream) {
  launch(narrow, {.from = from.data(), .to = to.data(), .count = from.count()}, stream);
}

void enqueue_widen(const DeviceBuffer<std::uint16_t>& from, const DeviceBuffer<float>& to, hipStream_t stream) {
  launch(widen, {.from = from.data(), .to = to.data(), .count = from.count()}, stream);
}

}  // namespace

DataType default_attention_dtype() {
  try {
    const Executor plan(capacity({}, 1, 64, DataType::fp32));
    return DataType::fp32;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return DataType::bf16;
  }
}

NarrowTensors::NarrowTensors(std::int64_t rows, std::int64_t width)
    : qkv(rows * 3 * width), o(rows * width), d_o(rows * width), d_qkv(rows * 3 * width) {}

AttentionTensors::AttentionTensors(std::int64_t rows, std::int64_t heads, std::int64_t hdim, DataType dtype)
    : qkv(rows * 3 * heads * hdim),
      o(rows * heads * hdim),
      lse(heads * rows),
      d_o(rows * heads * hdim),
      d_qkv(rows * 3 * heads * hdim),
      status(StatusBuffer::create()) {
  if (dtype == DataType::bf16) narrow.emplace(rows, heads * hdim);
}

Attention::Attention(const BatchShape& shape, std::int64_t heads, std::int64_t hdim, DataType dtype)
    : executor_(capacity(shape, heads, hdim, dtype)),
      scale_(1.0F / std::sqrt(static_cast<float>(hdim))),
      workspace_(std::max<std::int64_t>(executor_.workspace_size(), kWorkspaceAlignment)),
      d_(heads * shape.tokens) {}

CallArguments Attention::arguments(const AttentionTensors& tensors, const std::int32_t* seqstart) const {
  const Problem& problem = executor_.problem();
  const std::int64_t width = problem.nhead_q * problem.hdim_q;
  const auto third = [&](void* qkv, std::int64_t which) {
    TensorView view = TensorView::thd(static_cast<std::byte*>(qkv) + which * width * element_size(problem.dtype),
                                      problem.dtype, problem.total_q, problem.nhead_q, problem.hdim_q);
    view.stride_seqlen = 3 * width;
    view.stride_batch = problem.total_q * view.stride_seqlen;
    return view;
  };
  const auto heads = [&](void* data) {
    return TensorView::thd(data, problem.dtype, problem.total_q, problem.nhead_q, problem.hdim_v);
  };
  const auto& narrow16 = tensors.narrow;
  void* qkv = narrow16 ? static_cast<void*>(narrow16->qkv.data()) : tensors.qkv.data();
  void* d_qkv = narrow16 ? static_cast<void*>(narrow16->d_qkv.data()) : tensors.d_qkv.data();
  CallArguments call;
  call.scale = scale_;
  call.q = third(qkv, 0);
  call.k = third(qkv, 1);
  call.v = third(qkv, 2);
  call.o = heads(narrow16 ? static_cast<void*>(narrow16->o.data()) : tensors.o.data());
  call.dout = heads(narrow16 ? static_cast<void*>(narrow16->d_o.data()) : tensors.d_o.data());
  call.lse = TensorView::rows_ht(tensors.lse.data(), problem.nhead_q, problem.total_q);
  call.d = TensorView::rows_ht(d_.data(), problem.nhead_q, problem.total_q);
  call.dq = third(d_qkv, 0);
  call.dk = third(d_qkv, 1);
  call.dv = third(d_qkv, 2);
  call.lengths.seqstart_q = seqstart;
  call.lengths.seqstart_k = seqstart;
  call.workspace = workspace_.data();
  call.workspace_bytes = workspace_.count();
  call.status = tensors.status;
  return call;
}

void Attention::enqueue_forward(const AttentionTensors& tensors, const std::int32_t* seqstart,
                                hipStream_t stream) const {
  if (tensors.narrow) enqueue_narrow(tensors.qkv, tensors.narrow->qkv, stream);
  executor_.enqueue_forward(arguments(tensors, seqstart), stream);
  if (tensors.narrow) enqueue_widen(tensors.narrow->o, tensors.o, stream);
}

void Attention::enqueue_backward(const AttentionTensors& tensors, const std::int32_t* seqstart,
                                 hipStream_t stream) const {
  if (tensors.narrow) enqueue_narrow(tensors.d_o, tensors.narrow->d_o, stream);
  executor_.enqueue(arguments(tensors, seqstart), stream);
  if (tensors.narrow) enqueue_widen(tensors.narrow->d_qkv, tensors.d_qkv, stream);
}

}  // namespace fmhax::train
