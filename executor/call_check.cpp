#include "call_check.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "fmhax/contract/sequence.hpp"
#include "hip_calls.hpp"
#include "hip_compat.hpp"

namespace fmhax::detail {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

/// Pageable host memory and memory of other devices would fault, or be read as garbage, inside a kernel.
void check_pointer(const ExecutorState& state, const char* field, const void* pointer, const char* member = "") {
  if (state.known_pointers.contains(pointer)) return;
  hipPointerAttribute_t attributes{};
  const hipError_t error = hipPointerGetAttributes(&attributes, pointer);
  if (error != hipSuccess && error != hipErrorInvalidValue) throw_hip_error(error, "hipPointerGetAttributes");
  if (error != hipSuccess) (void)hipGetLastError();
  if (error != hipSuccess || !is_device_memory(attributes)) {
    refuse(fmt::format("{}{} is {}, which is not device memory; allocate it with hipMalloc", field, member,
                       fmt::ptr(pointer)));
  }
  if (!is_managed_memory(attributes) && attributes.device != state.traits.device) {
    refuse(fmt::format("{}{} lies on device {}, the executor was planned for device {}", field, member,
                       attributes.device, state.traits.device));
  }
  state.known_pointers.add(pointer);
}

struct Shape {
  std::int64_t batch, seqlen, nhead, hdim;
};

void check_extent(const char* field, const char* axis, std::int64_t given, std::int64_t wanted) {
  if (given != wanted) refuse(fmt::format("{}.{} is {}, the problem asks for {}", field, axis, given, wanted));
}

/// Offsets must fit 64 bits; outputs must not write one element twice.
void check_strides(const char* field, const TensorView& view, bool is_output) {
  struct Axis {
    const char* name;
    std::int64_t extent, stride;
  };
  const std::array<Axis, 3> axes{{{"stride_batch", view.batch, view.stride_batch},
                                  {"stride_seqlen", view.seqlen, view.stride_seqlen},
                                  {"stride_nhead", view.nhead, view.stride_nhead}}};
  std::int64_t reach = view.hdim;
  for (const Axis& axis : axes) {
    std::int64_t span = 0;
    if (axis.stride < 0)
      refuse(fmt::format("{}.{} is {}; negative strides are not supported", field, axis.name, axis.stride));
    if (axis.extent > 1 && (__builtin_mul_overflow(axis.extent - 1, axis.stride, &span) ||
                            __builtin_add_overflow(reach, span, &reach) || reach > (INT64_MAX >> 2))) {
      refuse(fmt::format("{}.{} is {}; the tensor's extent does not fit 64 bits", field, axis.name, axis.stride));
    }
    if (is_output && axis.extent > 1 && axis.stride < view.hdim && view.hdim > 1) {
      refuse(fmt::format("{}.{} is {}, smaller than a row of {} elements; an output must not overlap itself", field,
                         axis.name, axis.stride, view.hdim));
    }
    if (is_output && axis.extent > 1 && axis.stride == 0) {
      refuse(fmt::format("{}.{} is 0; an output must not overlap itself", field, axis.name));
    }
  }
}

void check_tensor(const ExecutorState& state, const char* field, const TensorView& view, DataType dtype, Shape shape,
                  bool is_output) {
  if (view.dtype != dtype)
    refuse(fmt::format("{}.dtype is {}, must be {}", field, to_string(view.dtype), to_string(dtype)));
  check_extent(field, "batch", view.batch, shape.batch);
  check_extent(field, "seqlen", view.seqlen, shape.seqlen);
  check_extent(field, "nhead", view.nhead, shape.nhead);
  check_extent(field, "hdim", view.hdim, shape.hdim);
  if (view.stride_hdim != 1 && shape.hdim > 1) {
    refuse(fmt::format("{}.stride_hdim is {}; the last dimension must be contiguous (1)", field, view.stride_hdim));
  }
  if (shape.batch == 0 || shape.seqlen == 0 || shape.hdim == 0) return;
  check_strides(field, view, is_output);
  if (view.data == nullptr) refuse(fmt::format("{}.data is null", field));
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(element_size(dtype)) != 0) {
    refuse(fmt::format("{}.data is {}, not aligned to its elements of {} bytes", field, fmt::ptr(view.data),
                       element_size(dtype)));
  }
  check_pointer(state, field, view.data, ".data");
}

enum class LengthsIn { device_memory, host_memory };

void check_length_arrays(const ExecutorState& state, const SequenceLengths& lengths, LengthsIn where) {
  const Problem& p = state.problem;
  struct Field {
    const char* name;
    const std::int32_t* pointer;
    bool wanted;
    const char* when;
  };
  const bool per_sequence = p.logical_lengths == LogicalLengths::per_sequence;
  const bool cumulative = p.logical_lengths == LogicalLengths::cumulative;
  const std::array<Field, 6> fields{
      {{"lengths.seqstart_q", lengths.seqstart_q, p.is_group_mode, "group mode"},
       {"lengths.seqstart_k", lengths.seqstart_k, p.is_group_mode, "group mode"},
       {"lengths.seqlen_q", lengths.seqlen_q, per_sequence, "LogicalLengths::per_sequence"},
       {"lengths.seqlen_k", lengths.seqlen_k, per_sequence, "LogicalLengths::per_sequence"},
       {"lengths.cu_seqlen_q", lengths.cu_seqlen_q, cumulative, "LogicalLengths::cumulative"},
       {"lengths.cu_seqlen_k", lengths.cu_seqlen_k, cumulative, "LogicalLengths::cumulative"}}};
  for (const Field& field : fields) {
    const bool has_entries = p.batch > 0 || &field < fields.data() + 2 || cumulative;
    if (field.wanted && field.pointer == nullptr && has_entries) {
      refuse(fmt::format("{} is null; it is needed with {}", field.name, field.when));
    }
    if (!field.wanted && field.pointer != nullptr) {
      refuse(fmt::format("{} is set; it is only for {} and must be null here", field.name, field.when));
    }
    if (field.pointer == nullptr) continue;
    if (reinterpret_cast<std::uintptr_t>(field.pointer) % sizeof(std::int32_t) != 0) {
      refuse(fmt::format("{} is {}, not aligned to 4 bytes", field.name, fmt::ptr(field.pointer)));
    }
    if (where == LengthsIn::device_memory) check_pointer(state, field.name, field.pointer);
  }
}

/// One buffer given twice is a mistake that no kernel would notice.
void check_distinct_outputs(const CallArguments& a, bool has_d) {
  struct Named {
    const char* name;
    const void* pointer;
  };
  const std::array<Named, 8> outputs{{{"dq.data", a.dq.data},
                                      {"dk.data", a.dk.data},
                                      {"dv.data", a.dv.data},
                                      {"workspace", a.workspace},
                                      {"d.data", has_d ? a.d.data : nullptr},
                                      {"dbias.data", a.dbias.data},
                                      {"random_values.data", a.random_values.data},
                                      {"dsink", a.dsink}}};
  const std::array<Named, 12> inputs{{{"q.data", a.q.data},
                                      {"k.data", a.k.data},
                                      {"v.data", a.v.data},
                                      {"o.data", a.o.data},
                                      {"dout.data", a.dout.data},
                                      {"lse.data", a.lse.data},
                                      {"bias.data", a.bias.data},
                                      {"dlse.data", a.dlse.data},
                                      {"alibi_slopes", a.alibi_slopes},
                                      {"sink", a.sink},
                                      {"dropout.seed_pointer", a.dropout.seed_pointer},
                                      {"dropout.offset_pointer", a.dropout.offset_pointer}}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].pointer == nullptr) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[i].pointer == outputs[j].pointer) {
        refuse(fmt::format("{} and {} are the same buffer", outputs[j].name, outputs[i].name));
      }
    }
    for (const Named& input : inputs) {
      if (outputs[i].pointer == input.pointer) {
        refuse(fmt::format("{} and {} are the same buffer", outputs[i].name, input.name));
      }
    }
  }
}

/// What a problem lacks must not be given: it would silently be ignored.
void check_unused(const char* field, bool is_set, bool is_used, const char* problem_field) {
  if (is_set && !is_used)
    refuse(fmt::format("{} is set, but the problem does not ask for it ({})", field, problem_field));
}

/// An array in device memory.
template <class T>
void check_array(const ExecutorState& state, const char* field, const T* pointer, const char* problem_field) {
  if (pointer == nullptr) refuse(fmt::format("{} is null; it is needed with {}", field, problem_field));
  if (reinterpret_cast<std::uintptr_t>(pointer) % sizeof(T) != 0) {
    refuse(fmt::format("{} is {}, not aligned to {} bytes", field, fmt::ptr(pointer), sizeof(T)));
  }
  check_pointer(state, field, pointer);
}

/// [batch or 1, rows of q, nhead_q or 1, keys of a sequence]; broadcast axes only where they are allowed.
void check_row_by_key(const ExecutorState& state, const char* field, const TensorView& view, DataType dtype,
                      bool may_broadcast, bool is_output) {
  const Problem& p = state.problem;
  Shape shape{p.is_group_mode ? 1 : p.batch, p.is_group_mode ? p.total_q : p.max_seqlen_q, p.nhead_q, p.max_seqlen_k};
  const auto broadcast = [&](const char* axis, std::int64_t given, std::int64_t& wanted) {
    if (given != 1 && given != wanted)
      refuse(fmt::format("{}.{} is {}, must be {} or, broadcast, 1", field, axis, given, wanted));
    wanted = given;
  };
  if (may_broadcast) {
    broadcast("batch", view.batch, shape.batch);
    broadcast("nhead", view.nhead, shape.nhead);
  }
  check_tensor(state, field, view, dtype, shape, is_output);
}

void check_dropout(const ExecutorState& state, const DropoutArguments& dropout) {
  if (!(dropout.probability >= 0.0F && dropout.probability < 1.0F)) {
    refuse(fmt::format("dropout.probability is {}; it must be in [0, 1)", dropout.probability));
  }
  if (dropout.seed_pointer != nullptr) check_array(state, "dropout.seed_pointer", dropout.seed_pointer, "has_dropout");
  if (dropout.offset_pointer != nullptr) {
    check_array(state, "dropout.offset_pointer", dropout.offset_pointer, "has_dropout");
  }
}

void check_forward_features(const ExecutorState& state, const CallArguments& a) {
  const Problem& p = state.problem;
  const bool has_bias = p.bias == BiasKind::elementwise;
  const bool has_alibi = p.bias == BiasKind::alibi;
  check_unused("bias", a.bias.data != nullptr, has_bias, "bias: elementwise");
  if (has_bias) check_row_by_key(state, "bias", a.bias, p.dtype, true, false);
  check_unused("alibi_slopes", a.alibi_slopes != nullptr, has_alibi, "bias: alibi");
  check_unused("alibi_stride_batch", a.alibi_stride_batch != 0, has_alibi, "bias: alibi");
  if (has_alibi) {
    check_array(state, "alibi_slopes", a.alibi_slopes, "bias: alibi");
    if (a.alibi_stride_batch < 0 || a.alibi_stride_batch > (INT64_MAX >> 2) / std::max<std::int64_t>(p.batch, 1)) {
      refuse(
          fmt::format("alibi_stride_batch is {}; it must be 0 (one slope a head) or the elements between two "
                      "sequences' slopes",
                      a.alibi_stride_batch));
    }
  }
  check_unused("softcap", a.softcap != 0.0F, p.has_softcap, "has_softcap");
  if (p.has_softcap && (!(a.softcap > 0.0F) || a.softcap > 3.4e38F)) {
    refuse(fmt::format("softcap is {}; it must be positive and finite", a.softcap));
  }
  check_unused("dropout", a.dropout != DropoutArguments{}, p.has_dropout, "has_dropout");
  if (p.has_dropout) check_dropout(state, a.dropout);
  check_unused("random_values", a.random_values.data != nullptr, p.stores_random_values, "stores_random_values");
  if (p.stores_random_values) {
    check_row_by_key(state, "random_values", a.random_values, DataType::uint8, false, true);
  }
  check_unused("sink", a.sink != nullptr, p.has_sink, "has_sink");
  if (p.has_sink) check_array(state, "sink", a.sink, "has_sink");
}

void check_backward_features(const ExecutorState& state, const CallArguments& a, Shape rows) {
  const Problem& p = state.problem;
  check_unused("dbias", a.dbias.data != nullptr, p.has_dbias, "has_dbias");
  if (p.has_dbias) check_row_by_key(state, "dbias", a.dbias, p.dtype, true, true);
  check_unused("dsink", a.dsink != nullptr, p.has_sink, "has_sink");
  if (p.has_sink) check_array(state, "dsink", a.dsink, "has_sink");
  check_unused("dlse", a.dlse.data != nullptr, p.has_dlse, "has_dlse");
  if (p.has_dlse) check_tensor(state, "dlse", a.dlse, DataType::fp32, rows, false);
}

void check_tensors(const ExecutorState& state, const CallArguments& a, bool backward) {
  const Problem& p = state.problem;
  const std::int64_t batch = p.is_group_mode ? 1 : p.batch;
  const std::int64_t seqlen_q = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  const std::int64_t seqlen_k = p.is_group_mode ? p.total_k : p.max_seqlen_k;
  const Shape q{batch, seqlen_q, p.nhead_q, p.hdim_q};
  const Shape k{batch, seqlen_k, p.nhead_k, p.hdim_q};
  const Shape v{batch, seqlen_k, p.nhead_k, p.hdim_v};
  const Shape o{batch, seqlen_q, p.nhead_q, p.hdim_v};
  const Shape rows{batch, seqlen_q, p.nhead_q, 1};
  check_tensor(state, "q", a.q, p.dtype, q, false);
  check_tensor(state, "k", a.k, p.dtype, k, false);
  check_tensor(state, "v", a.v, p.dtype, v, false);
  check_tensor(state, "o", a.o, p.dtype, o, !backward);
  check_tensor(state, "lse", a.lse, DataType::fp32, rows, !backward);
  check_forward_features(state, a);
  if (!backward) return;
  check_tensor(state, "dout", a.dout, p.dtype, o, false);
  if (state.has_d) check_tensor(state, "d", a.d, DataType::fp32, rows, true);
  check_tensor(state, "dq", a.dq, p.dtype, q, true);
  check_tensor(state, "dk", a.dk, p.dtype, k, true);
  check_tensor(state, "dv", a.dv, p.dtype, v, true);
  check_backward_features(state, a, rows);
  check_distinct_outputs(a, state.has_d);
  if (!(a.scale > 0.0F) || a.scale > 3.4e38F) {
    refuse(fmt::format("scale is {}; it must be positive and finite", a.scale));
  }
}

}  // namespace

void check_call(const ExecutorState& state, const CallArguments& arguments, const CallUse& use) {
  if (use.kernels) check_tensors(state, arguments, use.backward);
  check_length_arrays(state, arguments.lengths, LengthsIn::device_memory);
  check_workspace(state, arguments, use.workspace_bytes);
}

void check_workspace(const ExecutorState& state, const CallArguments& arguments, std::int64_t needed) {
  if (needed == 0) return;
  if (arguments.workspace == nullptr) {
    refuse(fmt::format("workspace is null; {} bytes are needed", needed));
  }
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kWorkspaceAlignment != 0) {
    refuse(fmt::format("workspace is {}, not aligned to {} bytes", fmt::ptr(arguments.workspace), kWorkspaceAlignment));
  }
  if (arguments.workspace_bytes < needed) {
    throw Error(ErrorCode::workspace_too_small,
                fmt::format("workspace_bytes is {}, {} bytes are needed", arguments.workspace_bytes, needed));
  }
  check_pointer(state, "workspace", arguments.workspace);
}

void check_host_lengths(const ExecutorState& state, const SequenceLengths& lengths) {
  check_length_arrays(state, lengths, LengthsIn::host_memory);
  const CallStatus status = check_lengths(state.problem, lengths);
  if (status.code != StatusCode::ok) refuse(to_string(status));
}

int check_stream(const ExecutorState& state, hipStream_t stream) {
  int current = 0;
  FMHAX_HIP(hipGetDevice, &current);
  int device = current;
  check_hip(stream_device(stream, current, &device), "hipStreamGetDevice");
  if (device != state.traits.device) {
    refuse(fmt::format("stream belongs to device {}, the executor was planned for device {}", device,
                       state.traits.device));
  }
  return current;
}

}  // namespace fmhax::detail
