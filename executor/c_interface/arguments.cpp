// Tensors, call arguments and status buffers.
#include "handles.hpp"

namespace fmhax::c_interface {
namespace {

static_assert(sizeof(fmhax_call_arguments) == offsetof(fmhax_call_arguments, dropout_offset_pointer) + sizeof(void*));
static_assert(sizeof(fmhax_tensor) == sizeof(TensorView), "the views have the same fields");

TensorView view_from(const fmhax_tensor& c) {
  return {c.data,         static_cast<DataType>(c.dtype),
          c.batch,        c.seqlen,
          c.nhead,        c.hdim,
          c.stride_batch, c.stride_seqlen,
          c.stride_nhead, c.stride_hdim};
}

fmhax_tensor to_c(const TensorView& view) {
  return {view.data,         static_cast<std::int32_t>(view.dtype),
          view.batch,        view.seqlen,
          view.nhead,        view.hdim,
          view.stride_batch, view.stride_seqlen,
          view.stride_nhead, view.stride_hdim};
}

DataType dtype_from(std::int32_t dtype) { return static_cast<DataType>(dtype); }

}  // namespace

template <>
fmhax_call_arguments defaults<fmhax_call_arguments>() {
  const CallArguments cpp;
  fmhax_call_arguments c{};
  c.scale = cpp.scale;
  for (fmhax_tensor* tensor : {&c.q, &c.k, &c.v, &c.o, &c.dout, &c.lse, &c.d, &c.dq, &c.dk, &c.dv, &c.bias, &c.dbias,
                               &c.random_values, &c.dlse}) {
    *tensor = to_c(TensorView{});
  }
  return c;
}

CallArguments arguments_from(const fmhax_call_arguments* given) {
  const fmhax_call_arguments c = read_struct(given, "arguments");
  CallArguments a;
  a.scale = c.scale;
  a.q = view_from(c.q);
  a.k = view_from(c.k);
  a.v = view_from(c.v);
  a.o = view_from(c.o);
  a.dout = view_from(c.dout);
  a.lse = view_from(c.lse);
  a.d = view_from(c.d);
  a.dq = view_from(c.dq);
  a.dk = view_from(c.dk);
  a.dv = view_from(c.dv);
  if (c.lengths != nullptr) a.lengths = lengths_from(c.lengths, "lengths");
  a.workspace = c.workspace;
  a.workspace_bytes = c.workspace_bytes;
  if (c.status != nullptr) a.status = c.status->buffer;
  a.bias = view_from(c.bias);
  a.dbias = view_from(c.dbias);
  a.random_values = view_from(c.random_values);
  a.dlse = view_from(c.dlse);
  a.alibi_slopes = c.alibi_slopes;
  a.alibi_stride_batch = c.alibi_stride_batch;
  a.sink = c.sink;
  a.dsink = c.dsink;
  a.softcap = c.softcap;
  a.dropout = {c.dropout_probability, c.dropout_seed, c.dropout_offset, c.dropout_seed_pointer,
               c.dropout_offset_pointer};
  return a;
}

}  // namespace fmhax::c_interface

using namespace fmhax::c_interface;
using fmhax::TensorView;

fmhax_error_code fmhax_call_arguments_init(fmhax_call_arguments* arguments, size_t struct_size) {
  return guarded([&] { init_struct(arguments, "arguments", struct_size); });
}

fmhax_tensor fmhax_tensor_bshd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim) {
  return to_c(TensorView::bshd(data, dtype_from(dtype), batch, seqlen, nhead, hdim));
}

fmhax_tensor fmhax_tensor_bhsd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim) {
  return to_c(TensorView::bhsd(data, dtype_from(dtype), batch, seqlen, nhead, hdim));
}

fmhax_tensor fmhax_tensor_sbhd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim) {
  return to_c(TensorView::sbhd(data, dtype_from(dtype), batch, seqlen, nhead, hdim));
}

fmhax_tensor fmhax_tensor_thd(void* data, int32_t dtype, int64_t total, int64_t nhead, int64_t hdim) {
  return to_c(TensorView::thd(data, dtype_from(dtype), total, nhead, hdim));
}

fmhax_tensor fmhax_tensor_rows_bhs(float* data, int64_t batch, int64_t nhead, int64_t seqlen) {
  return to_c(TensorView::rows_bhs(data, batch, nhead, seqlen));
}

fmhax_tensor fmhax_tensor_rows_ht(float* data, int64_t nhead, int64_t total) {
  return to_c(TensorView::rows_ht(data, nhead, total));
}

fmhax_error_code fmhax_status_buffer_create(fmhax_status_buffer** buffer) {
  return create_handle(buffer, "buffer", [] { return new fmhax_status_buffer{fmhax::StatusBuffer::create()}; });
}

void fmhax_status_buffer_destroy(fmhax_status_buffer* buffer) { delete buffer; }

fmhax_error_code fmhax_status_buffer_read(const fmhax_status_buffer* buffer, fmhax_call_status* status) {
  return guarded([&] { write_struct(to_c(required(buffer, "buffer").buffer.read()), status, "status"); });
}
