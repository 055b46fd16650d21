// The metadata from lengths in device memory: pack_workspace_host() spread over blocks, with the zeroing.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bodies.hpp"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/status_access.hpp"
#include "fmhax/contract/tile_list.hpp"

namespace fmhax::cpu {
namespace {

/// This block's part of [0, count).
IndexRange share_of(std::int64_t count, Block block) {
  const std::int64_t each = count / block.count;
  const std::int64_t rest = count % block.count;
  const std::int64_t begin = block.index * each + std::min(block.index, rest);
  return {begin, begin + each + (block.index < rest ? 1 : 0)};
}

/// The metadata of one call as its layout has them. No number here overflows: the lengths are within the capacity, for
/// which the plan found a size.
class Packer {
 public:
  Packer(const KernelParams& params, const WorkspaceSpec& spec)
      : params_(params), problem_(params.problem), spec_(spec) {}

  /// Elements of dq_acc that sequences [sequences.begin, sequences.end) take.
  std::int64_t elements(IndexRange sequences) const {
    std::int64_t sum = 0;
    for (std::int64_t i = sequences.begin; i < sequences.end; ++i) sum += elements_of(i);
    return sum;
  }
  std::int64_t batch_mode_elements() const {
    return rows_q(problem_) * problem_.nhead_q * problem_.hdim_q * batch_mode_splits();
  }

  /// Entries of these sequences, whose accumulators begin at `offset`.
  void write_sequences(IndexRange sequences, std::int64_t offset) const {
    for (std::int64_t i = sequences.begin; i < sequences.end; ++i) {
      if (spec_.is_deterministic) nsplits()[i] = static_cast<std::int32_t>(splits_of(i));
      offset += elements_of(i);
      offsets()[i + 1] = offset;
    }
  }
  /// What belongs to no sequence: single entries, and zeroes between the arrays.
  void write_rest() const {
    zero_after(0, 4 * nsplits_count(spec_, problem_.batch));
    if (!problem_.is_group_mode) {
      nsplits()[0] = static_cast<std::int32_t>(batch_mode_splits());
      return;
    }
    if (!spec_.is_deterministic) nsplits()[0] = 1;
    offsets()[0] = 0;
    zero_after(dq_acc_offsets_position(spec_, problem_.batch), 8 * (problem_.batch + 1));
    if (holds_tile_list(spec_)) write_tile_list();
  }
  void write_refusal() const {
    std::memset(params_.metadata, 0, static_cast<std::size_t>(dq_acc_position(spec_, problem_.batch)));
    if (nsplits_count(spec_, problem_.batch) > 0) nsplits()[0] = kInvalidCall;
  }

  /// The refusal of a workspace that holds less than `elements`.
  CallStatus too_small(std::int64_t elements) const {
    const std::int64_t capacity = params_.dq_acc_bytes;
    CallStatus status{StatusCode::workspace_too_small,   SequenceSide::q, 0,
                      elements * spec_.acc_element_size, capacity,        0};
    std::int64_t end = 0;
    while (problem_.is_group_mode && status.sequence + 1 < problem_.batch) {
      end += elements_of(status.sequence);
      if (end * spec_.acc_element_size > capacity) break;
      ++status.sequence;
    }
    return status;
  }

 private:
  std::int64_t physical(SequenceSide side, std::int64_t i) const {
    return sequence_range(problem_, params_.lengths, side, i).physical;
  }
  std::int64_t splits_of(std::int64_t i) const {
    return spec_.is_deterministic ? sequence_splits(spec_, problem_, physical(SequenceSide::k, i)) : 1;
  }
  std::int64_t elements_of(std::int64_t i) const {
    return physical(SequenceSide::q, i) * splits_of(i) * problem_.nhead_q * problem_.hdim_q;
  }
  std::int64_t batch_mode_splits() const { return sequence_splits(spec_, problem_, problem_.max_seqlen_k); }

  void write_tile_list() const {
    const std::int64_t starts = tile_starts_position(spec_, problem_.batch);
    const std::int64_t sequences = tile_sequences_position(spec_, problem_.batch);
    fill_tile_list(spec_, problem_, params_.lengths, reinterpret_cast<std::int32_t*>(head() + starts),
                   reinterpret_cast<std::int32_t*>(head() + sequences));
    zero_after(starts, 4 * (problem_.batch + 1));
    zero_after(sequences, 4 * problem_.batch);
  }

  std::byte* head() const { return static_cast<std::byte*>(params_.metadata); }
  std::int32_t* nsplits() const { return reinterpret_cast<std::int32_t*>(head()); }
  std::int64_t* offsets() const {
    return reinterpret_cast<std::int64_t*>(head() + dq_acc_offsets_position(spec_, problem_.batch));
  }
  void zero_after(std::int64_t position, std::int64_t bytes) const {
    std::memset(head() + position + bytes, 0, static_cast<std::size_t>(round_up_to_alignment(bytes) - bytes));
  }

  const KernelParams& params_;
  const Problem& problem_;
  const WorkspaceSpec& spec_;
};

}  // namespace

void prepare(const KernelParams& params, const WorkspaceSpec& spec, Block block) {
  const Problem& p = params.problem;
  const Packer packer(params, spec);
  CallStatus found = check_lengths(p, params.lengths);
  const IndexRange sequences = p.is_group_mode ? share_of(p.batch, block) : IndexRange{};
  std::int64_t before = 0;
  std::int64_t total = 0;
  if (found.code == StatusCode::ok) {
    before = packer.elements({0, sequences.begin});
    total = p.is_group_mode ? before + packer.elements({sequences.begin, p.batch}) : packer.batch_mode_elements();
    if (total * spec.acc_element_size > params.dq_acc_bytes) found = packer.too_small(total);
  }
  if (block.index == 0 && params.status != nullptr) store_status(*params.status, found);
  if (found.code != StatusCode::ok) {
    if (block.index == 0) packer.write_refusal();
    return;
  }
  packer.write_sequences(sequences, before);
  if (block.index == 0) packer.write_rest();
  if (!params.zero_dq_acc) return;
  const IndexRange zeroes = share_of(total, block);
  std::memset(static_cast<std::byte*>(params.dq_acc) + zeroes.begin * spec.acc_element_size, 0,
              static_cast<std::size_t>((zeroes.end - zeroes.begin) * spec.acc_element_size));
}

}  // namespace fmhax::cpu
