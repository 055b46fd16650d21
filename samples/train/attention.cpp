#include "attention.hpp"

#include <algorithm>
#include <cmath>

namespace fmhax::train {
namespace {

Problem capacity(const BatchShape& shape, std::int64_t heads, std::int64_t hdim) {
  return {.dtype = DataType::fp32,
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

}  // namespace

AttentionTensors::AttentionTensors(std::int64_t rows, std::int64_t heads, std::int64_t hdim)
    : qkv(rows * 3 * heads * hdim),
      o(rows * heads * hdim),
      lse(heads * rows),
      d_o(rows * heads * hdim),
      d_qkv(rows * 3 * heads * hdim),
      status(StatusBuffer::create()) {}

Attention::Attention(const BatchShape& shape, std::int64_t heads, std::int64_t hdim)
    : executor_(capacity(shape, heads, hdim)),
      scale_(1.0F / std::sqrt(static_cast<float>(hdim))),
      workspace_(std::max<std::int64_t>(executor_.workspace_size(), kWorkspaceAlignment)),
      d_(heads * shape.tokens) {}

CallArguments Attention::arguments(const AttentionTensors& tensors, const std::int32_t* seqstart) const {
  const Problem& problem = executor_.problem();
  const std::int64_t width = problem.nhead_q * problem.hdim_q;
  const auto third = [&](float* qkv, std::int64_t which) {
    TensorView view =
        TensorView::thd(qkv + which * width, DataType::fp32, problem.total_q, problem.nhead_q, problem.hdim_q);
    view.stride_seqlen = 3 * width;
    view.stride_batch = problem.total_q * view.stride_seqlen;
    return view;
  };
  const auto heads = [&](float* data) {
    return TensorView::thd(data, DataType::fp32, problem.total_q, problem.nhead_q, problem.hdim_v);
  };
  CallArguments call;
  call.scale = scale_;
  call.q = third(tensors.qkv.data(), 0);
  call.k = third(tensors.qkv.data(), 1);
  call.v = third(tensors.qkv.data(), 2);
  call.o = heads(tensors.o.data());
  call.dout = heads(tensors.d_o.data());
  call.lse = TensorView::rows_ht(tensors.lse.data(), problem.nhead_q, problem.total_q);
  call.d = TensorView::rows_ht(d_.data(), problem.nhead_q, problem.total_q);
  call.dq = third(tensors.d_qkv.data(), 0);
  call.dk = third(tensors.d_qkv.data(), 1);
  call.dv = third(tensors.d_qkv.data(), 2);
  call.lengths.seqstart_q = seqstart;
  call.lengths.seqstart_k = seqstart;
  call.workspace = workspace_.data();
  call.workspace_bytes = workspace_.count();
  call.status = tensors.status;
  return call;
}

void Attention::enqueue_forward(const AttentionTensors& tensors, const std::int32_t* seqstart,
                                hipStream_t stream) const {
  executor_.enqueue_forward(arguments(tensors, seqstart), stream);
}

void Attention::enqueue_backward(const AttentionTensors& tensors, const std::int32_t* seqstart,
                                 hipStream_t stream) const {
  executor_.enqueue(arguments(tensors, seqstart), stream);
}

}  // namespace fmhax::train
