#include "plain_data.hpp"

namespace fmhax::c_interface {
namespace {

static_assert(FMHAX_DATA_TYPE_FP32 == static_cast<int>(DataType::fp32));
static_assert(FMHAX_DATA_TYPE_FP16 == static_cast<int>(DataType::fp16));
static_assert(FMHAX_DATA_TYPE_BF16 == static_cast<int>(DataType::bf16));
static_assert(FMHAX_DATA_TYPE_UINT8 == static_cast<int>(DataType::uint8));
static_assert(FMHAX_MASK_ALIGNMENT_TOP_LEFT == static_cast<int>(MaskAlignment::top_left));
static_assert(FMHAX_MASK_ALIGNMENT_BOTTOM_RIGHT == static_cast<int>(MaskAlignment::bottom_right));
static_assert(FMHAX_LOGICAL_LENGTHS_NONE == static_cast<int>(LogicalLengths::none));
static_assert(FMHAX_LOGICAL_LENGTHS_PER_SEQUENCE == static_cast<int>(LogicalLengths::per_sequence));
static_assert(FMHAX_LOGICAL_LENGTHS_CUMULATIVE == static_cast<int>(LogicalLengths::cumulative));
static_assert(FMHAX_BIAS_NONE == static_cast<int>(BiasKind::none));
static_assert(FMHAX_BIAS_ELEMENTWISE == static_cast<int>(BiasKind::elementwise));
static_assert(FMHAX_BIAS_ALIBI == static_cast<int>(BiasKind::alibi));
static_assert(FMHAX_ALIBI_DISTANCE_TOP_LEFT == static_cast<int>(AlibiForm::distance_top_left));
static_assert(FMHAX_ALIBI_DISTANCE_BOTTOM_RIGHT == static_cast<int>(AlibiForm::distance_bottom_right));
static_assert(FMHAX_ALIBI_COLUMN == static_cast<int>(AlibiForm::column));
static_assert(FMHAX_STATUS_OK == static_cast<int>(StatusCode::ok));
static_assert(FMHAX_STATUS_FIRST_NOT_ZERO == static_cast<int>(StatusCode::first_not_zero));
static_assert(FMHAX_STATUS_DECREASING == static_cast<int>(StatusCode::decreasing));
static_assert(FMHAX_STATUS_EXCEEDS_TOKENS == static_cast<int>(StatusCode::exceeds_tokens));
static_assert(FMHAX_STATUS_EXCEEDS_MAX_SEQLEN == static_cast<int>(StatusCode::exceeds_max_seqlen));
static_assert(FMHAX_STATUS_BAD_LOGICAL_LENGTH == static_cast<int>(StatusCode::bad_logical_length));
static_assert(FMHAX_STATUS_WORKSPACE_TOO_SMALL == static_cast<int>(StatusCode::workspace_too_small));
static_assert(FMHAX_SIDE_Q == static_cast<int>(SequenceSide::q));
static_assert(FMHAX_SIDE_K == static_cast<int>(SequenceSide::k));

// No padding at the end, where an old program's garbage could become the value of a new field.
static_assert(sizeof(fmhax_problem) == offsetof(fmhax_problem, reserved) + sizeof(std::int32_t));
static_assert(sizeof(fmhax_sequence_lengths) == offsetof(fmhax_sequence_lengths, cu_seqlen_k) + sizeof(void*));
static_assert(sizeof(fmhax_call_status) == offsetof(fmhax_call_status, checks) + sizeof(std::int64_t));
static_assert(sizeof(fmhax_workspace_spec) == offsetof(fmhax_workspace_spec, acc_alignment) + sizeof(std::int64_t));

}  // namespace

template <>
fmhax_problem defaults<fmhax_problem>() {
  return to_c(Problem{});
}
template <>
fmhax_sequence_lengths defaults<fmhax_sequence_lengths>() {
  return {};
}
template <>
fmhax_call_status defaults<fmhax_call_status>() {
  return {};
}
template <>
fmhax_workspace_spec defaults<fmhax_workspace_spec>() {
  return to_c(WorkspaceSpec{});
}

Problem problem_from(const fmhax_problem* given) {
  const fmhax_problem c = read_struct(given, "problem");
  Problem p;
  p.dtype = static_cast<DataType>(c.dtype);
  p.is_group_mode = c.is_group_mode != 0;
  p.is_deterministic = c.is_deterministic != 0;
  p.batch = c.batch;
  p.nhead_q = c.nhead_q;
  p.nhead_k = c.nhead_k;
  p.hdim_q = c.hdim_q;
  p.hdim_v = c.hdim_v;
  p.max_seqlen_q = c.max_seqlen_q;
  p.max_seqlen_k = c.max_seqlen_k;
  p.total_q = c.total_q;
  p.total_k = c.total_k;
  p.mask = {static_cast<MaskAlignment>(c.mask.alignment), c.mask.window_left, c.mask.window_right};
  p.logical_lengths = static_cast<LogicalLengths>(c.logical_lengths);
  p.bias = static_cast<BiasKind>(c.bias);
  p.has_dbias = c.has_dbias != 0;
  p.has_dropout = c.has_dropout != 0;
  p.stores_random_values = c.stores_random_values != 0;
  p.has_sink = c.has_sink != 0;
  p.has_softcap = c.has_softcap != 0;
  p.has_dlse = c.has_dlse != 0;
  p.alibi_form = static_cast<AlibiForm>(c.alibi_form);
  if (c.reserved != 0) {
    throw Error(ErrorCode::invalid_argument, "problem.reserved is " + std::to_string(c.reserved) + ", but must be 0");
  }
  return p;
}

fmhax_problem to_c(const Problem& p) {
  fmhax_problem c{};
  c.dtype = static_cast<std::int32_t>(p.dtype);
  c.is_group_mode = p.is_group_mode;
  c.is_deterministic = p.is_deterministic;
  c.batch = p.batch;
  c.nhead_q = p.nhead_q;
  c.nhead_k = p.nhead_k;
  c.hdim_q = p.hdim_q;
  c.hdim_v = p.hdim_v;
  c.max_seqlen_q = p.max_seqlen_q;
  c.max_seqlen_k = p.max_seqlen_k;
  c.total_q = p.total_q;
  c.total_k = p.total_k;
  c.mask = {static_cast<std::int32_t>(p.mask.alignment), p.mask.window_left, p.mask.window_right};
  c.logical_lengths = static_cast<std::int32_t>(p.logical_lengths);
  c.bias = static_cast<std::int32_t>(p.bias);
  c.has_dbias = p.has_dbias;
  c.has_dropout = p.has_dropout;
  c.stores_random_values = p.stores_random_values;
  c.has_sink = p.has_sink;
  c.has_softcap = p.has_softcap;
  c.has_dlse = p.has_dlse;
  c.alibi_form = static_cast<std::int32_t>(p.alibi_form);
  return c;
}

SequenceLengths lengths_from(const fmhax_sequence_lengths* given, const char* name) {
  const fmhax_sequence_lengths c = read_struct(given, name);
  SequenceLengths lengths;
  lengths.seqstart_q = c.seqstart_q;
  lengths.seqstart_k = c.seqstart_k;
  lengths.seqlen_q = c.seqlen_q;
  lengths.seqlen_k = c.seqlen_k;
  lengths.cu_seqlen_q = c.cu_seqlen_q;
  lengths.cu_seqlen_k = c.cu_seqlen_k;
  return lengths;
}

CallStatus status_from(const fmhax_call_status* given) {
  const fmhax_call_status c = read_struct(given, "status");
  return {static_cast<StatusCode>(c.code), static_cast<SequenceSide>(c.side), c.sequence, c.value, c.limit, c.checks};
}

fmhax_call_status to_c(const CallStatus& status) {
  return {0,
          static_cast<std::int32_t>(status.code),
          static_cast<std::int32_t>(status.side),
          status.sequence,
          status.value,
          status.limit,
          status.checks};
}

WorkspaceSpec spec_from(const fmhax_workspace_spec* given) {
  const fmhax_workspace_spec c = read_struct(given, "spec");
  WorkspaceSpec spec;
  spec.kN0 = c.kN0;
  spec.workers = c.workers;
  spec.acc_element_size = c.acc_element_size;
  spec.is_group_mode = c.is_group_mode != 0;
  spec.is_deterministic = c.is_deterministic != 0;
  spec.is_persistent = c.is_persistent != 0;
  spec.writes_dq_directly = c.writes_dq_directly != 0;
  spec.needs_zero_dq_acc = c.needs_zero_dq_acc != 0;
  spec.has_tile_list = c.has_tile_list != 0;
  spec.can_bound_splits = c.can_bound_splits != 0;
  spec.max_splits = c.max_splits;
  if (c.acc_alignment != 0) spec.acc_alignment = c.acc_alignment;  // 0 comes from programs that are older than it
  return spec;
}

fmhax_workspace_spec to_c(const WorkspaceSpec& spec) {
  fmhax_workspace_spec c{};
  c.is_group_mode = spec.is_group_mode;
  c.kN0 = spec.kN0;
  c.workers = spec.workers;
  c.acc_element_size = spec.acc_element_size;
  c.is_deterministic = spec.is_deterministic;
  c.is_persistent = spec.is_persistent;
  c.writes_dq_directly = spec.writes_dq_directly;
  c.needs_zero_dq_acc = spec.needs_zero_dq_acc;
  c.has_tile_list = spec.has_tile_list;
  c.can_bound_splits = spec.can_bound_splits;
  c.max_splits = spec.max_splits;
  c.acc_alignment = spec.acc_alignment;
  return c;
}

}  // namespace fmhax::c_interface
