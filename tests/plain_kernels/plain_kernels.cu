// Plain kernels for the suites that know no platform, so that the executor's tests run on a card: one thread for each
// row and head, sums in a fixed order, no shared memory. Right, and slow; nothing but tests links them.
#include <algorithm>
#include <cstring>

#include "elements.cuh"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/workspace.hpp"
#include "fmhax/registry.hpp"

namespace {

using namespace fmhax;

constexpr std::int64_t kKeysPerTile = 128;
constexpr std::int64_t kMaxHdim = 256;
constexpr std::uint32_t kThreads = 64;

__device__ float load(const TensorRef& tensor, DataType dtype, std::int64_t at) {
  switch (dtype) {
    case DataType::fp16:
      return portable::widen<DataType::fp16>(static_cast<const std::uint16_t*>(tensor.data)[at]).x;
    case DataType::bf16:
      return portable::widen<DataType::bf16>(static_cast<const std::uint16_t*>(tensor.data)[at]).x;
    case DataType::fp32:
    case DataType::uint8:
      break;
  }
  return static_cast<const float*>(tensor.data)[at];
}

__device__ void store(const TensorRef& tensor, DataType dtype, std::int64_t at, float value) {
  switch (dtype) {
    case DataType::fp16:
      static_cast<std::uint16_t*>(tensor.data)[at] =
          static_cast<std::uint16_t>(portable::narrow<DataType::fp16>(value, 0.0F));
      return;
    case DataType::bf16:
      static_cast<std::uint16_t*>(tensor.data)[at] =
          static_cast<std::uint16_t>(portable::narrow<DataType::bf16>(value, 0.0F));
      return;
    case DataType::fp32:
    case DataType::uint8:
      break;
  }
  static_cast<float*>(tensor.data)[at] = value;
}

__device__ void fill(const TensorRef& tensor, DataType dtype, std::int64_t at, std::int64_t count, float value) {
  for (std::int64_t i = 0; i < count; ++i) store(tensor, dtype, at + i, value);
}

/// One row of q or of k: which sequence it is in (-1: none) and where.
struct Place {
  std::int64_t sequence = -1;
  std::int64_t row = 0;  ///< within the sequence
  SequenceRange range{};
};

__device__ Place place_of(const KernelParams& params, SequenceSide side, std::int64_t row) {
  const Problem& p = params.problem;
  Place place;
  if (!p.is_group_mode) {
    const std::int64_t seqlen = side == SequenceSide::q ? p.max_seqlen_q : p.max_seqlen_k;
    place.sequence = row / seqlen;
    place.row = row % seqlen;
    place.range = sequence_range(p, params.lengths, side, place.sequence);
    return place;
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const SequenceRange range = sequence_range(p, params.lengths, side, i);
    if (row < range.start || row >= range.start + range.physical) continue;
    return {i, row - range.start, range};
  }
  return place;
}

/// Element offset of a row that counts through the whole tensor.
__device__ std::int64_t row_offset(const TensorRef& tensor, const Problem& p, std::int64_t seqlen, std::int64_t row,
                                   std::int64_t head) {
  const std::int64_t batch = p.is_group_mode ? 0 : row / seqlen;
  const std::int64_t within = p.is_group_mode ? row : row % seqlen;
  return batch * tensor.stride_batch + within * tensor.stride_seqlen + head * tensor.stride_nhead;
}

__device__ std::int64_t offset_in(const TensorRef& tensor, const Problem& p, std::int64_t sequence,
                                  const SequenceRange& range, std::int64_t row, std::int64_t head) {
  const std::int64_t batch = p.is_group_mode ? 0 : sequence;
  return batch * tensor.stride_batch + (range.start + row) * tensor.stride_seqlen + head * tensor.stride_nhead;
}

__device__ float dot(const TensorRef& a, std::int64_t a_at, const TensorRef& b, std::int64_t b_at, DataType dtype,
                     std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += load(a, dtype, a_at + i) * load(b, dtype, b_at + i);
  return sum;
}

/// P and dS of one pair of a query row and a key that it sees.
struct Pair {
  float p, ds;
};

template <bool kIsDirect>
__device__ Pair pair_of(const KernelParams& params, std::int64_t sequence, const SequenceRange& q,
                        const SequenceRange& k, std::int64_t row, std::int64_t key, std::int64_t head) {
  const Problem& p = params.problem;
  const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
  const auto at_q = [&](const TensorRef& tensor) { return offset_in(tensor, p, sequence, q, row, head); };
  const auto at_k = [&](const TensorRef& tensor) { return offset_in(tensor, p, sequence, k, key, key_head); };
  const float s = params.scale * dot(params.q, at_q(params.q), params.k, at_k(params.k), p.dtype, p.hdim_q);
  const float probability = expf(s - load(params.lse, DataType::fp32, at_q(params.lse)));
  const float dp = dot(params.dout, at_q(params.dout), params.v, at_k(params.v), p.dtype, p.hdim_v);
  const float d = kIsDirect ? dot(params.dout, at_q(params.dout), params.o, at_q(params.o), p.dtype, p.hdim_v)
                            : load(params.d, DataType::fp32, at_q(params.d));
  return {probability, probability * (dp - d)};
}

__device__ std::int64_t thread_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ void report(const CallStatus& found, CallStatus* status) {
  if (status == nullptr) return;
  CallStatus written = found;
  written.checks = status->checks + 1;
  *status = written;
}

template <bool kIsDirect>
__device__ void key_job(const KernelParams& params, std::int64_t row, std::int64_t key_head, bool is_refused) {
  const Problem& p = params.problem;
  const std::int64_t dk_at = row_offset(params.dk, p, p.max_seqlen_k, row, key_head);
  const std::int64_t dv_at = row_offset(params.dv, p, p.max_seqlen_k, row, key_head);
  const Place place = is_refused ? Place{} : place_of(params, SequenceSide::k, row);
  if (place.sequence < 0 || place.row >= place.range.logical) {
    const float value = is_refused ? nanf("") : 0.0F;
    fill(params.dk, p.dtype, dk_at, p.hdim_q, value);
    fill(params.dv, p.dtype, dv_at, p.hdim_v, value);
    return;
  }
  const SequenceRange q = sequence_range(p, params.lengths, SequenceSide::q, place.sequence);
  const IndexRange rows = rows_seeing(p.mask, q.logical, place.range.logical, {place.row, place.row + 1});
  float dk[kMaxHdim] = {};
  float dv[kMaxHdim] = {};
  const std::int64_t group = p.nhead_q / p.nhead_k;
  for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const IndexRange keys = visible_keys(p.mask, q.logical, place.range.logical, i);
      if (place.row < keys.begin || place.row >= keys.end) continue;
      const Pair pair = pair_of<kIsDirect>(params, place.sequence, q, place.range, i, place.row, head);
      const std::int64_t q_at = offset_in(params.q, p, place.sequence, q, i, head);
      const std::int64_t dout_at = offset_in(params.dout, p, place.sequence, q, i, head);
      for (std::int64_t c = 0; c < p.hdim_q; ++c) dk[c] += pair.ds * load(params.q, p.dtype, q_at + c);
      for (std::int64_t c = 0; c < p.hdim_v; ++c) dv[c] += pair.p * load(params.dout, p.dtype, dout_at + c);
    }
  }
  for (std::int64_t c = 0; c < p.hdim_q; ++c) store(params.dk, p.dtype, dk_at + c, params.scale * dk[c]);
  for (std::int64_t c = 0; c < p.hdim_v; ++c) store(params.dv, p.dtype, dv_at + c, dv[c]);
}

/// dq of one row from the keys of one tile, into `sum`.
template <bool kIsDirect>
__device__ void add_tile(const KernelParams& params, const Place& place, const SequenceRange& k, std::int64_t head,
                         std::int64_t tile, float* sum) {
  const Problem& p = params.problem;
  const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
  const IndexRange visible = visible_keys(p.mask, place.range.logical, k.logical, place.row);
  const std::int64_t end = min(visible.end, (tile + 1) * kKeysPerTile);
  for (std::int64_t key = max(visible.begin, tile * kKeysPerTile); key < end; ++key) {
    const Pair pair = pair_of<kIsDirect>(params, place.sequence, place.range, k, place.row, key, head);
    const std::int64_t k_at = offset_in(params.k, p, place.sequence, k, key, key_head);
    for (std::int64_t c = 0; c < p.hdim_q; ++c) sum[c] += pair.ds * load(params.k, p.dtype, k_at + c);
  }
}

/// Where a row's split begins in dq_acc.
__device__ float* split_row(const KernelParams& params, const Place& place, std::int64_t head, std::int64_t split) {
  const Problem& p = params.problem;
  const bool has_own_splits = p.is_group_mode && p.is_deterministic;
  const std::int64_t nsplits = params.nsplits[has_own_splits ? place.sequence : 0];
  const std::int64_t seqlen_q = place.range.physical;
  const std::int64_t begin = p.is_group_mode ? params.dq_acc_offsets[place.sequence]
                                             : place.sequence * p.nhead_q * nsplits * seqlen_q * p.hdim_q;
  return static_cast<float*>(params.dq_acc) + begin + ((head * nsplits + split) * seqlen_q + place.row) * p.hdim_q;
}

template <bool kIsDirect>
__device__ void query_job(const KernelParams& params, std::int64_t row, std::int64_t head, bool is_refused) {
  const Problem& p = params.problem;
  const Place place = is_refused ? Place{} : place_of(params, SequenceSide::q, row);
  const bool is_real = place.sequence >= 0 && place.row < place.range.logical;
  if (kIsDirect) {
    float sum[kMaxHdim] = {};
    if (is_real) {
      add_tile<true>(params, place, sequence_range(p, params.lengths, SequenceSide::k, place.sequence), head, 0, sum);
    }
    const std::int64_t at = row_offset(params.dq, p, p.max_seqlen_q, row, head);
    for (std::int64_t c = 0; c < p.hdim_q; ++c) {
      store(params.dq, p.dtype, at + c, is_refused ? nanf("") : params.scale * sum[c]);
    }
    return;
  }
  if (!is_real) return;
  const SequenceRange k = sequence_range(p, params.lengths, SequenceSide::k, place.sequence);
  for (std::int64_t tile = 0; tile * kKeysPerTile < k.physical; ++tile) {
    float sum[kMaxHdim] = {};
    add_tile<false>(params, place, k, head, tile, sum);
    // The one split of atomic kernels is added to, and so has to have been zeroed.
    float* to = split_row(params, place, head, p.is_deterministic ? tile : 0);
    for (std::int64_t c = 0; c < p.hdim_q; ++c) to[c] = p.is_deterministic ? sum[c] : to[c] + sum[c];
  }
}

template <bool kIsDirect>
__global__ void dq_dk_dv_kernel(KernelParams params) {
  const Problem& p = params.problem;
  const std::int64_t key_jobs = rows_k(p) * p.nhead_k;
  const std::int64_t job = thread_index();
  bool is_refused = false;
  if (kIsDirect) {
    const CallStatus found = check_lengths(p, params.lengths);
    if (job == 0) report(found, params.status);
    is_refused = found.code != StatusCode::ok;
  } else {
    is_refused = params.nsplits[0] == kInvalidCall;
  }
  if (job < key_jobs) {
    key_job<kIsDirect>(params, job / p.nhead_k, job % p.nhead_k, is_refused);
  } else if (job < key_jobs + rows_q(p) * p.nhead_q) {
    query_job<kIsDirect>(params, (job - key_jobs) / p.nhead_q, (job - key_jobs) % p.nhead_q, is_refused);
  }
}

__device__ void dot_do_o(const KernelParams& params) {
  const Problem& p = params.problem;
  const std::int64_t job = thread_index();
  if (job >= rows_q(p) * p.nhead_q || check_lengths(p, params.lengths).code != StatusCode::ok) return;
  const std::int64_t row = job / p.nhead_q;
  const std::int64_t head = job % p.nhead_q;
  const Place place = place_of(params, SequenceSide::q, row);
  if (place.sequence < 0 || place.row >= place.range.logical) return;
  const auto at = [&](const TensorRef& tensor) { return row_offset(tensor, p, p.max_seqlen_q, row, head); };
  store(params.d, DataType::fp32, at(params.d),
        dot(params.dout, at(params.dout), params.o, at(params.o), p.dtype, p.hdim_v));
}

__global__ void dot_do_o_kernel(KernelParams params) { dot_do_o(params); }

__global__ void convert_dq_kernel(KernelParams params) {
  const Problem& p = params.problem;
  const std::int64_t job = thread_index();
  if (job >= rows_q(p) * p.nhead_q) return;
  const std::int64_t row = job / p.nhead_q;
  const std::int64_t head = job % p.nhead_q;
  const std::int64_t at = row_offset(params.dq, p, p.max_seqlen_q, row, head);
  const bool is_refused = params.nsplits[0] == kInvalidCall;
  const Place place = is_refused ? Place{} : place_of(params, SequenceSide::q, row);
  if (place.sequence < 0 || place.row >= place.range.logical) {
    return fill(params.dq, p.dtype, at, p.hdim_q, is_refused ? nanf("") : 0.0F);
  }
  const std::int64_t nsplits = params.nsplits[p.is_group_mode && p.is_deterministic ? place.sequence : 0];
  for (std::int64_t c = 0; c < p.hdim_q; ++c) {
    float sum = 0;
    for (std::int64_t split = 0; split < nsplits; ++split) sum += split_row(params, place, head, split)[c];
    store(params.dq, p.dtype, at + c, params.scale * sum);
  }
}

__global__ void forward_kernel(KernelParams params) {
  const Problem& p = params.problem;
  const std::int64_t job = thread_index();
  if (job >= rows_q(p) * p.nhead_q) return;
  const std::int64_t row = job / p.nhead_q;
  const std::int64_t head = job % p.nhead_q;
  const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
  const bool is_refused = check_lengths(p, params.lengths).code != StatusCode::ok;
  const Place place = is_refused ? Place{} : place_of(params, SequenceSide::q, row);
  SequenceRange k;
  IndexRange keys;
  if (place.sequence >= 0 && place.row < place.range.logical) {
    k = sequence_range(p, params.lengths, SequenceSide::k, place.sequence);
    keys = visible_keys(p.mask, place.range.logical, k.logical, place.row);
  }
  const std::int64_t q_at = row_offset(params.q, p, p.max_seqlen_q, row, head);
  const auto logit = [&](std::int64_t key) {
    return params.scale *
           dot(params.q, q_at, params.k, offset_in(params.k, p, place.sequence, k, key, key_head), p.dtype, p.hdim_q);
  };
  float largest = -INFINITY;
  for (std::int64_t key = keys.begin; key < keys.end; ++key) largest = fmaxf(largest, logit(key));
  float o[kMaxHdim] = {};
  float sum = 0;
  for (std::int64_t key = keys.begin; key < keys.end; ++key) {
    const float weight = expf(logit(key) - largest);
    const std::int64_t v_at = offset_in(params.v, p, place.sequence, k, key, key_head);
    sum += weight;
    for (std::int64_t c = 0; c < p.hdim_v; ++c) o[c] += weight * load(params.v, p.dtype, v_at + c);
  }
  const std::int64_t o_at = row_offset(params.o, p, p.max_seqlen_q, row, head);
  for (std::int64_t c = 0; c < p.hdim_v; ++c) {
    store(params.o, p.dtype, o_at + c, is_refused ? nanf("") : (sum > 0 ? o[c] / sum : 0.0F));
  }
  store(params.lse, DataType::fp32, row_offset(params.lse, p, p.max_seqlen_q, row, head),
        is_refused ? nanf("") : (sum > 0 ? largest + logf(sum) : -INFINITY));
}

/// One thread packs; all zero.
__device__ void prepare(const KernelParams& params, const WorkspaceSpec& spec) {
  const Problem& p = params.problem;
  const std::int64_t job = thread_index();
  if (params.zero_dq_acc) {
    const std::int64_t count = params.dq_acc_bytes / static_cast<std::int64_t>(sizeof(float));
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = job; i < count; i += step) static_cast<float*>(params.dq_acc)[i] = 0.0F;
  }
  if (job != 0) return;
  auto* head = static_cast<unsigned char*>(params.metadata);
  for (std::int64_t i = 0; i < dq_acc_position(spec, p.batch); ++i) head[i] = 0;
  auto* nsplits = reinterpret_cast<std::int32_t*>(head);
  auto* offsets = reinterpret_cast<std::int64_t*>(head + dq_acc_offsets_position(spec, p.batch));
  CallStatus found = check_lengths(p, params.lengths);
  std::int64_t end = 0;
  for (std::int64_t i = 0; found.code == StatusCode::ok && p.is_group_mode && i < p.batch; ++i) {
    const std::int64_t splits =
        sequence_splits(spec, p, sequence_range(p, params.lengths, SequenceSide::k, i).physical);
    if (spec.is_deterministic) nsplits[i] = static_cast<std::int32_t>(splits);
    end += splits * sequence_range(p, params.lengths, SequenceSide::q, i).physical * p.nhead_q * p.hdim_q;
    offsets[i + 1] = end;
    if (end * spec.acc_element_size > params.dq_acc_bytes && found.code == StatusCode::ok) {
      found = {StatusCode::workspace_too_small, SequenceSide::q, i, 0, params.dq_acc_bytes, 0};
    }
  }
  if (found.code == StatusCode::workspace_too_small) {
    for (std::int64_t i = 0; i < p.batch; ++i) {
      found.value += sequence_splits(spec, p, sequence_range(p, params.lengths, SequenceSide::k, i).physical) *
                     sequence_range(p, params.lengths, SequenceSide::q, i).physical * p.nhead_q * p.hdim_q *
                     spec.acc_element_size;
    }
  }
  if (found.code != StatusCode::ok) {
    for (std::int64_t i = 0; i < dq_acc_position(spec, p.batch); ++i) head[i] = 0;
    nsplits[0] = kInvalidCall;
  } else if (!p.is_group_mode) {
    nsplits[0] = static_cast<std::int32_t>(sequence_splits(spec, p, p.max_seqlen_k));
  } else if (!spec.is_deterministic) {
    nsplits[0] = 1;
  }
  report(found, params.status);
}

__global__ void prepare_kernel(KernelParams params, WorkspaceSpec spec) { prepare(params, spec); }

__global__ void prepare_and_dot_kernel(KernelParams params, WorkspaceSpec spec) {
  dot_do_o(params);
  prepare(params, spec);
}

template <bool kIsDirect>
const char* unsupported_reason(const Problem& p, const DeviceTraits&) {
  if (p.hdim_q > kMaxHdim || p.hdim_v > kMaxHdim) return "head dimensions above 256 are not supported";
  if (p.bias != BiasKind::none || p.has_dbias || p.has_dropout || p.stores_random_values || p.has_sink ||
      p.has_softcap || p.has_dlse) {
    return "the plain kernels have no such feature";
  }
  return kIsDirect && p.max_seqlen_k > kKeysPerTile ? "max_seqlen_k is above the 128 keys of one tile" : nullptr;
}

template <bool kIsDirect>
std::int32_t rank(const Problem&, const DeviceTraits&) {
  return kIsDirect ? 2 : 1;
}

template <bool kIsDirect>
WorkspaceSpec workspace_spec(const Problem& p, const DeviceTraits&) {
  return {.kN0 = kKeysPerTile,
          .workers = 0,
          .acc_element_size = sizeof(float),
          .is_group_mode = p.is_group_mode,
          .is_deterministic = p.is_deterministic,
          .is_persistent = false,
          .writes_dq_directly = kIsDirect,
          .needs_zero_dq_acc = !kIsDirect && (!p.is_deterministic || !p.mask.is_none())};
}

bool launch_of(const void* function, std::int64_t jobs, const KernelParams& params, KernelLaunch& launch) {
  launch = {};
  launch.function = function;
  launch.grid[0] = static_cast<std::uint32_t>((jobs + kThreads - 1) / kThreads);
  launch.block[0] = kThreads;
  launch.argument_count = 1;
  std::memcpy(launch.arguments, &params, sizeof(params));
  return true;
}

template <bool kIsDirect>
bool form_launch(KernelRole role, const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  const std::int64_t q_jobs = rows_q(p) * p.nhead_q;
  switch (role) {
    case KernelRole::forward:
      return launch_of(reinterpret_cast<const void*>(forward_kernel), q_jobs, params, launch);
    case KernelRole::dq_dk_dv:
      return launch_of(reinterpret_cast<const void*>(dq_dk_dv_kernel<kIsDirect>), q_jobs + rows_k(p) * p.nhead_k,
                       params, launch);
    case KernelRole::dot_do_o:
      return !kIsDirect && launch_of(reinterpret_cast<const void*>(dot_do_o_kernel), q_jobs, params, launch);
    case KernelRole::convert_dq:
      return !kIsDirect && launch_of(reinterpret_cast<const void*>(convert_dq_kernel), q_jobs, params, launch);
    case KernelRole::dbias:
    case KernelRole::dsink:
      return false;
    case KernelRole::prepare:
    case KernelRole::prepare_and_dot:
      break;
  }
  if (kIsDirect) return false;
  const bool with_dot = role == KernelRole::prepare_and_dot;
  const auto* function =
      with_dot ? reinterpret_cast<const void*>(prepare_and_dot_kernel) : reinterpret_cast<const void*>(prepare_kernel);
  const std::int64_t prepare_jobs = kThreads * std::max(traits.multiprocessors, 1);
  launch_of(function, with_dot ? std::max(prepare_jobs, q_jobs) : prepare_jobs, params, launch);
  const WorkspaceSpec spec = workspace_spec<kIsDirect>(p, traits);
  static_assert(sizeof(KernelParams) % alignof(WorkspaceSpec) == 0);
  static_assert(sizeof(KernelParams) + sizeof(WorkspaceSpec) <= KernelLaunch::kMaxArgumentBytes);
  launch.argument_count = 2;
  launch.argument_offset[1] = sizeof(params);
  std::memcpy(launch.arguments + sizeof(params), &spec, sizeof(spec));
  return true;
}

template <bool kIsDirect>
KernelEntry entry(const char* name) {
  KernelEntry e;
  e.name = name;
  e.unsupported_reason = unsupported_reason<kIsDirect>;
  e.rank = rank<kIsDirect>;
  e.workspace_spec = workspace_spec<kIsDirect>;
  e.form_launch = form_launch<kIsDirect>;
  return e;
}

[[maybe_unused]] const bool is_registered = [] {
  register_kernels(entry<true>("test-plain-direct"));
  register_kernels(entry<false>("test-plain-general"));
  return true;
}();

}  // namespace
