/// @file What the blocks of a launch that prepares do: one packs the metadata, the others zero dq_acc.
#pragma once

#include "block_ops.cuh"
#include "fmhax/contract/sequence.hpp"
#include "job_order.hpp"
#include "launch.hpp"
#include "places.cuh"
#include "status.cuh"
#include "tile_order.cuh"

namespace fmhax::portable {

/// Of every block.
inline constexpr int kPrepareThreads = kTileOrderThreads;

/// sequence_splits(), out of line: a dozen divisions that several places ask for, and a launch of few sequences waits
/// for every instruction that it has to fetch.
__device__ FMHAX_OUT_OF_LINE inline std::int64_t splits_out_of_line(const WorkspaceSpec& spec, const Problem& problem,
                                                                    std::int64_t seqlen_k) {
  return sequence_splits(spec, problem, seqlen_k);
}

/// The lengths of one call as the layout counts them. No number overflows: valid lengths are within the capacity, for
/// which the plan found a size.
class Lengths {
 public:
  __device__ Lengths(const KernelParams& params, const WorkspaceSpec& spec) : params_(params), spec_(spec) {}

  __device__ std::int64_t physical(SequenceSide side, std::int64_t i) const {
    return sequence_range(params_.problem, params_.lengths, side, i).physical;
  }
  __device__ std::int64_t splits(std::int64_t i) const { return splits_of(physical(SequenceSide::k, i)); }
  __device__ std::int64_t jobs(std::int64_t i) const {
    return spec_.is_deterministic ? splits(i) : key_tiles(spec_.kN0, physical(SequenceSide::k, i));
  }
  __device__ std::int64_t row_elements() const { return params_.problem.nhead_q * params_.problem.hdim_q; }
  __device__ std::int64_t elements(std::int64_t i) const {
    return physical(SequenceSide::q, i) * splits(i) * row_elements();
  }
  __device__ std::int64_t batch_mode_splits() const { return splits_of(params_.problem.max_seqlen_k); }
  __device__ std::int64_t batch_mode_elements() const {
    return rows_q(params_.problem) * row_elements() * batch_mode_splits();
  }
  __device__ bool is_wrong(std::int64_t i) const { return status(i).code != StatusCode::ok; }
  __device__ CallStatus status(std::int64_t i) const {
    const CallStatus q = check_sequence(params_.problem, params_.lengths, SequenceSide::q, i);
    return q.code != StatusCode::ok ? q : check_sequence(params_.problem, params_.lengths, SequenceSide::k, i);
  }

 private:
  __device__ std::int64_t splits_of(std::int64_t seqlen_k) const {
    return spec_.is_deterministic ? splits_out_of_line(spec_, params_.problem, seqlen_k) : 1;
  }

  const KernelParams& params_;
  const WorkspaceSpec& spec_;
};

struct PackMemory {
  BlockMemory<std::int64_t, kPrepareThreads> minimum;
  BlockMemory<std::int64_t, kPrepareThreads> total;
  // In turn, so that one barrier a scan is enough.
  BlockMemory<std::int64_t, kPrepareThreads> elements[2];
  BlockMemory<std::int32_t, kPrepareThreads> jobs[2];
  TileOrderMemory tile_order;
};

/// Packing by the threads of one block, or by its first warp alone where that has a lane for every sequence: nothing
/// then waits at a barrier, and no other warp has a part in the work.
class Packer {
 public:
  __device__ Packer(const KernelParams& params, const WorkspaceSpec& spec, PackMemory& memory)
      : params_(params),
        p_(params.problem),
        spec_(spec),
        lengths_(params, spec),
        memory_(memory),
        is_one_warp_(params.problem.batch <= arch::kWarpSize) {}

  __device__ void pack() {
    if (static_cast<int>(threadIdx.x) >= threads()) return;
    // Begun early: the host's memory is far away.
    std::int64_t checks = 0;
    if (is_first_thread() && params_.status != nullptr) checks = arch::load_for_host(&params_.status->checks);
    const CallStatus found = check();
    if (found.code == StatusCode::ok) {
      write_sequences();
      write_single_entries();
      write_tile_list();
    } else {
      write_refusal();
    }
    if (is_first_thread() && params_.status != nullptr) report(found, checks + 1, *params_.status);
  }

 private:
  __device__ static bool is_first_thread() { return threadIdx.x == 0; }
  __device__ int threads() const { return is_one_warp_ ? arch::kWarpSize : kPrepareThreads; }

  // Over threads(), by all of them.
  __device__ bool any(bool predicate) const {
    return is_one_warp_ ? arch::ballot(predicate) != 0 : __syncthreads_or(predicate ? 1 : 0) != 0;
  }
  /// Of numbers up to the batch.
  __device__ std::int64_t minimum(std::int64_t value) const {
    const MinimumOf<std::int64_t> of;
    return is_one_warp_ ? warp_reduce(value, of) : block_reduce<kPrepareThreads>(value, p_.batch, of, memory_.minimum);
  }
  template <typename T>
  __device__ Scanned<T> scan(T value, BlockMemory<T, kPrepareThreads>& memory) const {
    return is_one_warp_ ? warp_scan(value) : block_scan<kPrepareThreads>(value, memory);
  }

  /// The same for all threads.
  __device__ CallStatus check() {
    if (p_.is_group_mode || p_.logical_lengths != LogicalLengths::none) {
      std::int64_t first_wrong = p_.batch;
      for (std::int64_t i = threadIdx.x; i < p_.batch && first_wrong == p_.batch; i += kPrepareThreads) {
        if (lengths_.is_wrong(i)) first_wrong = i;
      }
      if (any(first_wrong < p_.batch)) return lengths_.status(minimum(first_wrong));
    }
    const std::int64_t total = total_elements();
    return is_beyond(total) ? too_small(total) : CallStatus{};
  }

  __device__ std::int64_t total_elements() {
    if (!p_.is_group_mode) return lengths_.batch_mode_elements();
    first_elements_ = scan_elements(0);
    if (p_.batch <= kPrepareThreads) return first_elements_.total;
    std::int64_t sum = 0;
    for (std::int64_t i = threadIdx.x; i < p_.batch; i += kPrepareThreads) sum += lengths_.elements(i);
    return block_reduce<kPrepareThreads>(sum, std::int64_t{0}, SumOf<std::int64_t>(), memory_.total);
  }

  /// Over sequences [base, base + kPrepareThreads), one for each thread; base is a multiple of kPrepareThreads.
  __device__ Scanned<std::int64_t> scan_elements(std::int64_t base) {
    const std::int64_t i = base + threadIdx.x;
    return scan(i < p_.batch ? lengths_.elements(i) : 0, memory_.elements[base / kPrepareThreads % 2]);
  }

  __device__ bool is_beyond(std::int64_t elements) const {
    return elements * spec_.acc_element_size > params_.dq_acc_bytes;
  }

  /// With the first sequence that ends beyond the workspace; rare, so one by one.
  __device__ CallStatus too_small(std::int64_t total) const {
    std::int64_t sequence = 0;
    std::int64_t end = 0;
    while (p_.is_group_mode && sequence + 1 < p_.batch) {
      end += lengths_.elements(sequence);
      if (is_beyond(end)) break;
      ++sequence;
    }
    return {StatusCode::workspace_too_small, SequenceSide::q,      sequence,
            total * spec_.acc_element_size,  params_.dq_acc_bytes, 0};
  }

  __device__ void write_sequences() {
    if (!p_.is_group_mode) return;
    std::int64_t* offsets = array<std::int64_t>(dq_acc_offsets_position(spec_, p_.batch));
    std::int64_t carry = 0;
    for (std::int64_t base = 0; base < p_.batch; base += kPrepareThreads) {
      const std::int64_t i = base + threadIdx.x;
      const Scanned<std::int64_t> scanned = base == 0 ? first_elements_ : scan_elements(base);
      if (i < p_.batch) {
        if (spec_.is_deterministic) array<std::int32_t>(0)[i] = static_cast<std::int32_t>(lengths_.splits(i));
        offsets[i + 1] = carry + scanned.through;
      }
      carry += scanned.total;
    }
  }

  /// What belongs to no sequence, and zeroes between the arrays.
  __device__ void write_single_entries() {
    if (is_first_thread()) {
      if (!p_.is_group_mode) array<std::int32_t>(0)[0] = static_cast<std::int32_t>(lengths_.batch_mode_splits());
      if (p_.is_group_mode && !spec_.is_deterministic) array<std::int32_t>(0)[0] = 1;
      if (p_.is_group_mode) array<std::int64_t>(dq_acc_offsets_position(spec_, p_.batch))[0] = 0;
    }
    const std::int64_t end = metadata_end(spec_, p_.batch);
    zero_words(end, (dq_acc_position(spec_, p_.batch) - end) / 4);
    zero_after(0, 4 * nsplits_count(spec_, p_.batch));
    if (p_.is_group_mode) zero_after(dq_acc_offsets_position(spec_, p_.batch), 8 * (p_.batch + 1));
    if (!holds_tile_list(spec_)) return;
    zero_after(tile_starts_position(spec_, p_.batch), 4 * (p_.batch + 1));
    zero_after(tile_sequences_position(spec_, p_.batch), 4 * p_.batch);
  }

  __device__ void write_tile_list() {
    if (!holds_tile_list(spec_)) return;
    std::int32_t* starts = array<std::int32_t>(tile_starts_position(spec_, p_.batch));
    std::int32_t* sequences = array<std::int32_t>(tile_sequences_position(spec_, p_.batch));
    if (is_first_thread()) starts[0] = 0;
    std::int32_t carry = 0;
    int turn = 0;
    for (std::int64_t base = 0; base < p_.batch; base += kPrepareThreads, turn ^= 1) {
      const std::int64_t place = base + threadIdx.x;
      std::int64_t sequence = place;
      if (p_.batch <= kMaxSortedBatch) {
        sequence = sequence_at_place(static_cast<std::int32_t>(p_.batch), memory_.tile_order,
                                     [&](std::int64_t i) { return lengths_.physical(SequenceSide::q, i); });
      }
      const auto jobs = place < p_.batch ? static_cast<std::int32_t>(lengths_.jobs(sequence)) : 0;
      const Scanned<std::int32_t> scanned = scan(jobs, memory_.jobs[turn]);
      if (place < p_.batch) {
        sequences[place] = static_cast<std::int32_t>(sequence);
        starts[place + 1] = carry + scanned.through;
      }
      carry += scanned.total;
    }
  }

  __device__ void write_refusal() {
    uint4* to = reinterpret_cast<uint4*>(params_.metadata);
    const std::int64_t vectors = dq_acc_position(spec_, p_.batch) / static_cast<std::int64_t>(sizeof(uint4));
#pragma unroll 1
    for (std::int64_t i = threadIdx.x; i < vectors; i += threads()) {
      const bool holds_mark = i == 0 && nsplits_count(spec_, p_.batch) > 0;
      to[i] = uint4{holds_mark ? static_cast<std::uint32_t>(kInvalidCall) : 0U, 0U, 0U, 0U};
    }
  }

  template <typename T>
  __device__ T* array(std::int64_t position) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(params_.metadata) + position);
  }
  /// From an array's end to the next multiple of the alignment.
  __device__ void zero_after(std::int64_t position, std::int64_t bytes) const {
    zero_words(position + bytes, (round_up_to_alignment(bytes) - bytes) / 4);
  }
  /// A few words of 32 bits.
  __device__ void zero_words(std::int64_t position, std::int64_t words) const {
#pragma unroll 1
    for (std::int64_t i = threadIdx.x; i < words; i += threads()) array<std::uint32_t>(position)[i] = 0;
  }

  const KernelParams& params_;
  const Problem& p_;
  const WorkspaceSpec& spec_;
  Lengths lengths_;
  PackMemory& memory_;
  const bool is_one_warp_;
  Scanned<std::int64_t> first_elements_;  ///< of the first kPrepareThreads sequences
};

/// Bytes of dq_acc that this call uses, whatever the capacity; within the workspace also where lengths are wrong. For
/// all threads of a block.
__device__ inline std::int64_t used_bytes(const KernelParams& params, const WorkspaceSpec& spec,
                                          BlockMemory<std::int64_t, kPrepareThreads>& memory) {
  const Problem& p = params.problem;
  const Lengths lengths(params, spec);
  std::int64_t elements = 0;
  if (!p.is_group_mode) {
    elements = lengths.batch_mode_elements();
  } else if (!spec.is_deterministic) {
    elements = packed_rows(p, params.lengths, SequenceSide::q) * lengths.row_elements();
  } else {
    for (std::int64_t i = threadIdx.x; i < p.batch; i += kPrepareThreads) elements += lengths.elements(i);
    elements = block_reduce<kPrepareThreads>(elements, std::int64_t{0}, SumOf<std::int64_t>(), memory);
  }
  return clamp_index(elements * spec.acc_element_size, 0, params.dq_acc_bytes);
}

/// Zeroes this block's share of what the call uses of dq_acc.
__device__ inline void zero_dq_acc(const KernelParams& params, const WorkspaceSpec& spec,
                                   BlockMemory<std::int64_t, kPrepareThreads>& memory, const Part& block) {
  // Rows are multiples of 16 bytes, and so are sums of them.
  const std::int64_t vectors = used_bytes(params, spec, memory) / static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t step = block.count * kPrepareThreads;
  for (std::int64_t i = block.index * kPrepareThreads + threadIdx.x; i < vectors; i += step) {
    static_cast<uint4*>(params.dq_acc)[i] = uint4{};
  }
}

/// Blocks beside the one that packs which saturate memory, whatever they do there.
inline std::int64_t most_sharing_blocks(const DeviceTraits& traits) { return 2 * std::max(traits.multiprocessors, 1); }

/// Blocks that zeroing is worth; 0 where there is nothing to zero.
inline std::int64_t zeroing_blocks(const KernelParams& params) {
  constexpr std::int64_t kBytesPerBlock = std::int64_t{4} * kPrepareThreads * static_cast<std::int64_t>(sizeof(uint4));
  return params.zero_dq_acc ? ceil_div(std::max<std::int64_t>(params.dq_acc_bytes, 0), kBytesPerBlock) : 0;
}

}  // namespace fmhax::portable
