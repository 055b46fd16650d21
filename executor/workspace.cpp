#include "fmhax/workspace.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "checked_math.hpp"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/tile_list.hpp"
#include "fmhax/error.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/status.hpp"

namespace fmhax {
namespace {

using detail::ceil_div;
using detail::Checked;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

/// The first thing that makes a spec or a problem's sizes meaningless; field is null when all is well.
struct Objection {
  const char* field = nullptr;
  std::int64_t value = 0;
  const char* allowed = nullptr;
};

Objection find_objection(const WorkspaceSpec& spec, const Problem& p) {
  if (spec.acc_element_size <= 0) return {"spec.acc_element_size", spec.acc_element_size, "positive"};
  if (spec.acc_alignment <= 0 || spec.acc_alignment % kWorkspaceAlignment != 0) {
    return {"spec.acc_alignment", spec.acc_alignment, "a positive multiple of 16"};
  }
  if (spec.is_group_mode != p.is_group_mode) {
    return {"spec.is_group_mode", spec.is_group_mode, "equal to problem.is_group_mode"};
  }
  const bool counts_splits = spec.is_deterministic && !spec.writes_dq_directly;
  if ((counts_splits || holds_tile_list(spec)) && spec.kN0 <= 0) return {"spec.kN0", spec.kN0, "positive"};
  if (counts_splits && spec.is_persistent && spec.workers <= 0) return {"spec.workers", spec.workers, "positive"};
  if (spec.max_splits < 0) return {"spec.max_splits", spec.max_splits, "0 or more"};
  if (p.batch < 0) return {"problem.batch", p.batch, "0 or more"};
  if (p.nhead_q < 0) return {"problem.nhead_q", p.nhead_q, "0 or more"};
  if (p.nhead_k < 0) return {"problem.nhead_k", p.nhead_k, "0 or more"};
  if (p.hdim_q < 0) return {"problem.hdim_q", p.hdim_q, "0 or more"};
  if (p.max_seqlen_q < 0) return {"problem.max_seqlen_q", p.max_seqlen_q, "0 or more"};
  if (p.max_seqlen_k < 0) return {"problem.max_seqlen_k", p.max_seqlen_k, "0 or more"};
  if (p.total_q < 0) return {"problem.total_q", p.total_q, "0 or more"};
  if (p.total_k < 0) return {"problem.total_k", p.total_k, "0 or more"};
  return {};
}

void check_arguments(const WorkspaceSpec& spec, const Problem& problem) {
  const Objection objection = find_objection(spec, problem);
  if (objection.field == nullptr) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is {}, but must be {}", objection.field, objection.value, objection.allowed));
}

std::int64_t value_or_throw(Checked size, const char* what, const Problem& problem) {
  if (!size.overflow) return size.value;
  throw Error(ErrorCode::overflow, fmt::format("{} does not fit 64 bits for {}", what, to_string(problem)));
}

Checked host_size(const WorkspaceSpec& spec, std::int64_t batch) {
  if (spec.writes_dq_directly) return 0;
  // With this sum in range, nothing in dq_acc_position() can overflow.
  const Checked rounding = Checked{4 * kWorkspaceAlignment} + spec.acc_alignment;
  Checked r = Checked{batch} * 4 + (Checked{batch} + 1) * 8 + rounding;
  if (holds_tile_list(spec)) r = r + (Checked{batch} + 1) * 4 + Checked{batch} * 4;
  if (!r.overflow) r.value = dq_acc_position(spec, batch);
  return r;
}

/// split_count() for arguments without objection.
Checked splits_of(const WorkspaceSpec& spec, const Problem& problem, std::int64_t seqlen_k) {
  if (spec.writes_dq_directly) return 0;
  if (!spec.is_deterministic) return 1;
  Checked tiles = ceil_div(seqlen_k, spec.kN0);
  if (!spec.is_persistent) tiles = bounded_splits(tiles.value, spec.max_splits);
  tiles.overflow = tiles.value > std::numeric_limits<std::int32_t>::max();  // nsplits[] is int32
  if (tiles.overflow || spec.is_group_mode || !spec.is_persistent || tiles.value == 0) return tiles;
  tiles.overflow = (tiles * problem.batch * problem.nhead_k + spec.workers + seqlen_k + spec.kN0).overflow;
  if (tiles.overflow) return tiles;  // persistent_schedule() would wrap
  return sequence_splits(spec, problem, seqlen_k);
}

/// Accumulator elements of one query row in one split.
Checked row_elements(const Problem& problem) { return Checked{problem.nhead_q} * problem.hdim_q; }

/// The most (query rows * splits) that any lengths within the capacity of a deterministic group problem
/// need. It is the exact maximum, found in constant time:
///
/// A sequence with c > 0 splits has at least (c - 1) * kN0 + 1 keys, so p sequences with keys and e splits
/// beyond the first of each fit when p + e * kN0 <= total_k; none has more than max_splits, the longest sequence's or
/// the spec's bound, whichever is less.
/// Given the splits, the sum of seqlen_q_i * c_i is largest with the query rows put where the splits are
/// most: max_seqlen_q rows in each of m - 1 sequences and `rest` in one more. Given those rows, the
/// splits belong to the sequences with the most rows: one each to the first p, then the e others, again
/// to the first. Only p is open. Giving keys to one more sequence of max_seqlen_q rows adds that many
/// and takes one token, hence at most one of the e splits, which counts max_seqlen_q at most: never a
/// loss. So p is m or, since the m-th may have fewer rows than the split that it costs, m - 1; less only
/// where total_k is less.
Checked max_rows_times_splits(const WorkspaceSpec& spec, const Problem& problem) {
  const std::int64_t longest = problem.max_seqlen_q;
  const std::int64_t longest_splits = ceil_div(problem.max_seqlen_k, spec.kN0);
  const bool is_bounded = spec.max_splits > 0 && !spec.is_persistent;
  const std::int64_t max_splits = is_bounded ? std::min(longest_splits, spec.max_splits) : longest_splits;
  if (problem.batch == 0 || longest == 0 || problem.total_q == 0 || max_splits == 0) return 0;

  const std::int64_t m = std::min(problem.batch, ceil_div(problem.total_q, longest));
  const std::int64_t rest = std::min(longest, problem.total_q - (m - 1) * longest);
  const auto with_keys_in = [&](std::int64_t p) {
    const std::int64_t full = p < m ? p : m - 1;  // sequences of `longest` rows among the first p
    const std::int64_t extra = (problem.total_k - p) / spec.kN0;
    const Checked room = Checked{full} * (max_splits - 1);
    const std::int64_t extra_full = room.overflow ? extra : std::min(extra, room.value);
    const std::int64_t extra_rest = p < m ? 0 : std::min(extra - extra_full, max_splits - 1);
    const Checked splits_full = Checked{full} + extra_full;
    const Checked splits_rest = Checked{p - full} + extra_rest;
    return splits_full * longest + splits_rest * rest;
  };
  const Checked all = with_keys_in(std::min(m, problem.total_k));
  const Checked all_but_last = with_keys_in(std::min(m - 1, problem.total_k));
  if (all.overflow) return all;
  return !all_but_last.overflow && all_but_last.value < all.value ? all : all_but_last;
}

/// dq_acc elements: exact in batch mode, the capacity's maximum in group mode.
Checked capacity_elements(const WorkspaceSpec& spec, const Problem& problem) {
  if (spec.writes_dq_directly) return 0;
  if (!problem.is_group_mode) {
    return Checked{problem.batch} * problem.max_seqlen_q * splits_of(spec, problem, problem.max_seqlen_k) *
           row_elements(problem);
  }
  const Checked rows = spec.is_deterministic ? max_rows_times_splits(spec, problem) : Checked{problem.total_q};
  return rows * row_elements(problem);
}

std::int64_t physical_length(const Problem& problem, const SequenceLengths& lengths, SequenceSide side,
                             std::int64_t i) {
  return sequence_range(problem, lengths, side, i).physical;
}

Checked exact_elements(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& lengths) {
  if (spec.writes_dq_directly || !problem.is_group_mode) return capacity_elements(spec, problem);
  Checked rows = 0;
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const Checked splits = splits_of(spec, problem, physical_length(problem, lengths, SequenceSide::k, i));
    rows = rows + splits * physical_length(problem, lengths, SequenceSide::q, i);
  }
  return rows * row_elements(problem);
}

/// check_lengths() that also refuses arrays that are not there: their first entry then counts as -1.
CallStatus check_host_lengths(const Problem& problem, const SequenceLengths& lengths) {
  if (problem.is_group_mode) {
    if (lengths.seqstart_q == nullptr) return {StatusCode::first_not_zero, SequenceSide::q, 0, -1, 0, 0};
    if (lengths.seqstart_k == nullptr) return {StatusCode::first_not_zero, SequenceSide::k, 0, -1, 0, 0};
  }
  if (problem.logical_lengths != LogicalLengths::none) {
    const bool is_cumulative = problem.logical_lengths == LogicalLengths::cumulative;
    const std::int32_t* q = is_cumulative ? lengths.cu_seqlen_q : lengths.seqlen_q;
    const std::int32_t* k = is_cumulative ? lengths.cu_seqlen_k : lengths.seqlen_k;
    if (q == nullptr) return {StatusCode::bad_logical_length, SequenceSide::q, 0, -1, problem.max_seqlen_q, 0};
    if (k == nullptr) return {StatusCode::bad_logical_length, SequenceSide::k, 0, -1, problem.max_seqlen_k, 0};
  }
  return check_lengths(problem, lengths);
}

template <typename T>
void store(void* base, std::int64_t position, std::int64_t index, T value) {
  std::memcpy(static_cast<unsigned char*>(base) + position + index * static_cast<std::int64_t>(sizeof value), &value,
              sizeof value);
}

/// What the metadata ask for.
struct Demand {
  Checked dq_acc_bytes = 0;
  std::int64_t first_beyond = -1;  ///< the first sequence whose end lies beyond the capacity
};

/// Where an array of int32 lies in the metadata, which are aligned.
std::int32_t* int32_array(void* base, std::int64_t position) {
  return reinterpret_cast<std::int32_t*>(static_cast<unsigned char*>(base) + position);
}

/// Writes the arrays over zeroed metadata.
Demand store_metadata(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& lengths,
                      std::int64_t capacity, void* out) {
  Demand demand;
  const auto grow_to = [&](Checked elements, std::int64_t sequence) {
    demand.dq_acc_bytes = elements * spec.acc_element_size;
    const bool is_beyond = demand.dq_acc_bytes.overflow || demand.dq_acc_bytes.value > capacity;
    if (is_beyond && demand.first_beyond < 0) demand.first_beyond = sequence;
  };
  if (!problem.is_group_mode) {
    store(out, 0, 0, static_cast<std::int32_t>(splits_of(spec, problem, problem.max_seqlen_k).value));
    grow_to(capacity_elements(spec, problem), 0);
    return demand;
  }
  if (!spec.is_deterministic) store(out, 0, 0, std::int32_t{1});
  const std::int64_t offsets = dq_acc_offsets_position(spec, problem.batch);
  const Checked per_row = row_elements(problem);
  Checked end = 0;
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const Checked splits = splits_of(spec, problem, physical_length(problem, lengths, SequenceSide::k, i));
    if (spec.is_deterministic) store(out, 0, i, static_cast<std::int32_t>(splits.value));
    end = end + splits * physical_length(problem, lengths, SequenceSide::q, i) * per_row;
    store(out, offsets, i + 1, end.value);
    grow_to(end, i);
  }
  if (holds_tile_list(spec)) {
    fill_tile_list(spec, problem, lengths, int32_array(out, tile_starts_position(spec, problem.batch)),
                   int32_array(out, tile_sequences_position(spec, problem.batch)));
  }
  return demand;
}

}  // namespace

std::int64_t workspace_host_size(const WorkspaceSpec& spec, std::int64_t batch) {
  if (batch < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("batch is {}, but must be 0 or more", batch));
  }
  const Checked size = host_size(spec, batch);
  if (size.overflow) {
    throw Error(ErrorCode::overflow, fmt::format("the metadata's size does not fit 64 bits for batch = {}", batch));
  }
  return size.value;
}

std::int64_t split_count(const WorkspaceSpec& spec, const Problem& problem, std::int64_t seqlen_k) {
  check_arguments(spec, problem);
  if (seqlen_k < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("seqlen_k is {}, but must be 0 or more", seqlen_k));
  }
  return value_or_throw(splits_of(spec, problem, seqlen_k), "the number of splits", problem);
}

std::int64_t workspace_size(const WorkspaceSpec& spec, const Problem& problem) {
  check_arguments(spec, problem);
  return value_or_throw(host_size(spec, problem.batch) + capacity_elements(spec, problem) * spec.acc_element_size,
                        "the workspace's size", problem);
}

std::int64_t workspace_size(const WorkspaceSpec& spec, const Problem& problem, const std::int32_t* seqstart_q,
                            const std::int32_t* seqstart_k) {
  check_arguments(spec, problem);
  // Sizes follow from physical lengths; the logical ones are not given here.
  Problem physical = problem;
  physical.logical_lengths = LogicalLengths::none;
  SequenceLengths lengths;
  lengths.seqstart_q = seqstart_q;
  lengths.seqstart_k = seqstart_k;
  if (problem.is_group_mode) {
    if (seqstart_q == nullptr || seqstart_k == nullptr) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{} is null, but must be int32[batch + 1] in group mode",
                                                           seqstart_q == nullptr ? "seqstart_q" : "seqstart_k"));
    }
    const CallStatus status = check_lengths(physical, lengths);
    if (status.code != StatusCode::ok) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("seqstart_{}: {}", status.side == SequenceSide::q ? "q" : "k", to_string(status)));
    }
  }
  return value_or_throw(
      host_size(spec, problem.batch) + exact_elements(spec, physical, lengths) * spec.acc_element_size,
      "the workspace's size", problem);
}

std::int64_t least_workspace_size(const WorkspaceSpec& spec, const Problem& problem) {
  WorkspaceSpec bounded = spec;
  bounded.max_splits = spec.can_bound_splits ? 1 : 0;
  return workspace_size(bounded, problem);
}

std::int64_t max_splits_within(const WorkspaceSpec& spec, const Problem& problem, std::int64_t max_bytes) {
  WorkspaceSpec bounded = spec;
  const auto fits = [&](std::int64_t max_splits) {
    bounded.max_splits = max_splits;
    check_arguments(bounded, problem);
    const Checked bytes =
        host_size(bounded, problem.batch) + capacity_elements(bounded, problem) * bounded.acc_element_size;
    return !bytes.overflow && bytes.value <= max_bytes;
  };
  if (fits(0)) return 0;
  if (!spec.can_bound_splits || !fits(1)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the workspace takes at least {} bytes, but may take {}, for {}",
                            least_workspace_size(spec, problem), max_bytes, to_string(problem)));
  }
  // More splits never take less; the bound of as many as the longest sequence has tiles is none.
  std::int64_t largest = 1;
  for (std::int64_t beyond = ceil_div(problem.max_seqlen_k, spec.kN0); beyond - largest > 1;) {
    const std::int64_t middle = largest + (beyond - largest) / 2;
    (fits(middle) ? largest : beyond) = middle;
  }
  return largest;
}

std::int64_t rectangular_workspace_size(const WorkspaceSpec& spec, const Problem& problem) {
  check_arguments(spec, problem);
  const Checked splits = splits_of(spec, problem, problem.max_seqlen_k);
  return value_or_throw(
      Checked{problem.batch} * problem.max_seqlen_q * splits * row_elements(problem) * spec.acc_element_size,
      "the rectangular layout's size", problem);
}

PackResult pack_workspace_host(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& host_lengths,
                               void* out, std::int64_t dq_acc_capacity) noexcept {
  PackResult result;
  const std::int64_t capacity = dq_acc_capacity < 0 ? kMax : dq_acc_capacity;
  result.status = {StatusCode::workspace_too_small, SequenceSide::q, 0, kMax, capacity, 0};
  if (problem.batch < 0) return result;
  const Checked metadata = host_size(spec, problem.batch);
  if (metadata.overflow || (metadata.value > 0 && out == nullptr)) return result;

  const auto refuse = [&](const CallStatus& status) {
    if (metadata.value > 0) std::memset(out, 0, static_cast<std::size_t>(metadata.value));
    if (metadata.value > 0 && nsplits_count(spec, problem.batch) > 0) store(out, 0, 0, kInvalidCall);
    return PackResult{0, status};
  };
  if (find_objection(spec, problem).field != nullptr) return refuse(result.status);
  const CallStatus lengths_status = check_host_lengths(problem, host_lengths);
  if (lengths_status.code != StatusCode::ok) return refuse(lengths_status);

  result.status = {};
  if (spec.writes_dq_directly) return result;
  std::memset(out, 0, static_cast<std::size_t>(metadata.value));
  const Demand demand = store_metadata(spec, problem, host_lengths, capacity, out);
  if (demand.first_beyond >= 0) {
    const std::int64_t bytes = demand.dq_acc_bytes.overflow ? kMax : demand.dq_acc_bytes.value;
    return refuse({StatusCode::workspace_too_small, SequenceSide::q, demand.first_beyond, bytes, capacity, 0});
  }
  result.dq_acc_bytes = demand.dq_acc_bytes.value;
  return result;
}

PackResult pack_workspace_host(const WorkspaceSpec& spec, const Problem& problem, const std::int32_t* seqstart_q,
                               const std::int32_t* seqstart_k, void* out) noexcept {
  Problem physical = problem;
  physical.logical_lengths = LogicalLengths::none;
  SequenceLengths lengths;
  lengths.seqstart_q = seqstart_q;
  lengths.seqstart_k = seqstart_k;
  return pack_workspace_host(spec, physical, lengths, out);
}

}  // namespace fmhax
