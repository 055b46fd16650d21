/// @file Where a sequence begins, how long it is, and which keys a row sees: the index arithmetic that
/// every kernel and the host share.
#pragma once

#include <cstdint>

#include "fmhax/contract/params.hpp"

namespace fmhax {

/// One side (q or k) of one sequence.
struct SequenceRange {
  std::int64_t start = 0;     ///< first physical row (group mode), 0 in batch mode
  std::int64_t physical = 0;  ///< rows, padding included
  std::int64_t logical = 0;   ///< rows that are real tokens
};

FMHAX_HOST_DEVICE constexpr std::int64_t clamp_index(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : (value > high ? high : value);
}

/// Half-open range of keys, or of query rows.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  FMHAX_HOST_DEVICE constexpr bool empty() const { return begin >= end; }
};

/// Sequence i's range on one side, forced into the capacity, so that whatever the device arrays hold no
/// index computed from it leaves the tensors. For lengths that passed check_lengths() nothing is changed.
FMHAX_HOST_DEVICE constexpr SequenceRange sequence_range(const Problem& p, const SequenceLengths& lengths,
                                                         SequenceSide side, std::int64_t i) {
  const bool is_q = side == SequenceSide::q;
  const std::int32_t* starts = is_q ? lengths.seqstart_q : lengths.seqstart_k;
  const std::int32_t* per_sequence = is_q ? lengths.seqlen_q : lengths.seqlen_k;
  const std::int32_t* cumulative = is_q ? lengths.cu_seqlen_q : lengths.cu_seqlen_k;
  const std::int64_t max_seqlen = is_q ? p.max_seqlen_q : p.max_seqlen_k;
  SequenceRange r{0, max_seqlen, max_seqlen};
  if (p.is_group_mode) {
    const std::int64_t total = is_q ? p.total_q : p.total_k;
    r.start = clamp_index(starts[i], 0, total);
    const std::int64_t end = clamp_index(starts[i + 1], r.start, total);
    r.physical = clamp_index(end - r.start, 0, max_seqlen);
    r.logical = r.physical;
  }
  if (p.logical_lengths == LogicalLengths::per_sequence) {
    r.logical = clamp_index(per_sequence[i], 0, r.physical);
  } else if (p.logical_lengths == LogicalLengths::cumulative) {
    r.logical = clamp_index(static_cast<std::int64_t>(cumulative[i + 1]) - cumulative[i], 0, r.physical);
  }
  return r;
}

/// Rows after the last sequence: [begin, end of the tensor). Empty in batch mode.
FMHAX_HOST_DEVICE constexpr IndexRange tail_rows(const Problem& p, const SequenceLengths& lengths, SequenceSide side) {
  if (!p.is_group_mode) return {};
  const bool is_q = side == SequenceSide::q;
  const std::int64_t total = is_q ? p.total_q : p.total_k;
  return {clamp_index((is_q ? lengths.seqstart_q : lengths.seqstart_k)[p.batch], 0, total), total};
}

/// Checks one sequence's entries on one side; returns ok or the first thing that is wrong with it.
FMHAX_HOST_DEVICE constexpr CallStatus check_sequence(const Problem& p, const SequenceLengths& lengths,
                                                      SequenceSide side, std::int64_t i) {
  const bool is_q = side == SequenceSide::q;
  const std::int64_t max_seqlen = is_q ? p.max_seqlen_q : p.max_seqlen_k;
  std::int64_t physical = max_seqlen;
  if (p.is_group_mode) {
    const std::int32_t* starts = is_q ? lengths.seqstart_q : lengths.seqstart_k;
    const std::int64_t total = is_q ? p.total_q : p.total_k;
    const std::int64_t begin = starts[i];
    const std::int64_t end = starts[i + 1];
    physical = end - begin;
    if (i == 0 && begin != 0) return {StatusCode::first_not_zero, side, i, begin, 0, 0};
    if (end < begin) return {StatusCode::decreasing, side, i, end, begin, 0};
    if (end > total) return {StatusCode::exceeds_tokens, side, i, end, total, 0};
    if (physical > max_seqlen) return {StatusCode::exceeds_max_seqlen, side, i, physical, max_seqlen, 0};
  }
  if (p.logical_lengths != LogicalLengths::none) {
    std::int64_t logical = 0;
    if (p.logical_lengths == LogicalLengths::per_sequence) {
      logical = (is_q ? lengths.seqlen_q : lengths.seqlen_k)[i];
    } else {
      const std::int32_t* cumulative = is_q ? lengths.cu_seqlen_q : lengths.cu_seqlen_k;
      logical = static_cast<std::int64_t>(cumulative[i + 1]) - cumulative[i];
    }
    if (logical < 0 || logical > physical) {
      return {StatusCode::bad_logical_length, side, i, logical, physical, 0};
    }
  }
  return {};
}

/// Checks every length of a call; returns ok or the status of the first sequence that is wrong.
FMHAX_HOST_DEVICE constexpr CallStatus check_lengths(const Problem& p, const SequenceLengths& lengths) {
  if (!p.is_group_mode && p.logical_lengths == LogicalLengths::none) return {};
  for (std::int64_t i = 0; i < p.batch; ++i) {
    CallStatus status = check_sequence(p, lengths, SequenceSide::q, i);
    if (status.code == StatusCode::ok) status = check_sequence(p, lengths, SequenceSide::k, i);
    if (status.code != StatusCode::ok) return status;
  }
  return {};
}

/// The shift of the mask's diagonal, from logical lengths.
FMHAX_HOST_DEVICE constexpr std::int64_t mask_offset(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  return mask.alignment == MaskAlignment::bottom_right ? seqlen_k - seqlen_q : 0;
}

/// What ALiBi multiplies with the slope, for query row `row` and key `key` of a sequence of these logical lengths.
FMHAX_HOST_DEVICE constexpr std::int64_t alibi_distance(AlibiForm form, std::int64_t seqlen_q, std::int64_t seqlen_k,
                                                        std::int64_t row, std::int64_t key) {
  if (form == AlibiForm::column) return key;
  const std::int64_t diagonal = row + (form == AlibiForm::distance_bottom_right ? seqlen_k - seqlen_q : 0);
  return diagonal < key ? diagonal - key : key - diagonal;
}

/// Keys that query row i sees.
FMHAX_HOST_DEVICE constexpr IndexRange visible_keys(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k,
                                                    std::int64_t row) {
  const std::int64_t diagonal = row + mask_offset(mask, seqlen_q, seqlen_k);
  IndexRange r{0, seqlen_k};
  if (mask.window_left >= 0) r.begin = clamp_index(diagonal - mask.window_left, 0, seqlen_k);
  if (mask.window_right >= 0) r.end = clamp_index(diagonal + mask.window_right + 1, 0, seqlen_k);
  return r;
}

/// Query rows that see at least one key of [keys.begin, keys.end): what a key tile has to visit.
FMHAX_HOST_DEVICE constexpr IndexRange rows_seeing(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k,
                                                   IndexRange keys) {
  const std::int64_t offset = mask_offset(mask, seqlen_q, seqlen_k);
  IndexRange r{0, keys.empty() ? 0 : seqlen_q};
  if (mask.window_right >= 0) {
    r.begin = clamp_index(keys.begin - offset - mask.window_right, 0, seqlen_q);
  }
  if (mask.window_left >= 0) {
    r.end = clamp_index(keys.end - offset + mask.window_left, 0, r.end);
  }
  return r;
}

}  // namespace fmhax
