/// @file What a block of the backward kernel works on, and how it finds that.
#pragma once

#include "backward_arguments.hpp"
#include "backward_config.hpp"
#include "band.cuh"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/workspace.hpp"
#include "places.cuh"

namespace fmhax::portable {

/// Of the key tile in work.
struct TileNumbers {
  int group = 1;                   ///< query heads of the key head
  int seqlen_q = 0, seqlen_k = 0;  ///< logical
  int first_row = 0, end_row = 0;  ///< the query rows to visit; first_row is a multiple of kM
  int key_begin = 0;
  Band band{};
};

/// What a block works on: a tile of keys of one key head, or the tiles of a split. Lies in shared memory, as registers
/// are what is short.
struct TileJob {
  std::int64_t index = 0;
  std::int64_t end = 0;  ///< of the block's share of the jobs
  std::int64_t sequence = 0;
  std::int64_t head_k = 0;
  std::int64_t split = 0;
  SplitRange tiles{};  ///< those that are left of the job
  SequenceRange q{}, k{};
  bool adds = false;  ///< deterministic mode: an earlier tile wrote to the split
  TileNumbers tile{};
};

/// Finds out what a job is: the first warp of a block does, all lanes together.
template <BackwardConfig kConfig>
class JobFinder {
 public:
  __device__ JobFinder(const KernelParams& params, const BackwardArguments& arguments)
      : params_(params), arguments_(arguments), p_(params.problem) {}

  /// Jobs of the call.
  __device__ std::int64_t count() const {
    return !kConfig.is_direct && p_.is_group_mode ? params_.tile_starts[p_.batch] * p_.nhead_k : arguments_.jobs;
  }

  /// The job's index is set, and where the block's share ends; everything else follows.
  __device__ void find(TileJob& job) const {
    job.adds = false;
    if constexpr (kConfig.is_direct) {
      job.sequence = job.index / p_.nhead_k;
      job.head_k = job.index % p_.nhead_k;
      take(job, 0);
    } else if (p_.is_group_mode) {
      const std::int64_t place = find_sequence_by_warp(params_.tile_starts, p_.batch, job.index / p_.nhead_k);
      const std::int64_t first = params_.tile_starts[place];
      const std::int64_t end = params_.tile_starts[place + 1];
      job.sequence = params_.tile_sequences[place];
      const std::int64_t rows = sequence_range(p_, params_.lengths, SequenceSide::q, job.sequence).physical;
      const HeadSections sections =
          head_sections(arguments_.limits, rows, end - first, p_.nhead_k, count() - end * p_.nhead_k);
      const JobPlace at = job_place(job.index - first * p_.nhead_k, end - first, p_.nhead_k, sections);
      job.head_k = at.head;
      take(job, at.tile);
    } else {
      const JobPlace at = job_place(job.index, arguments_.jobs_per_head, p_.batch * p_.nhead_k, arguments_.sections);
      job.sequence = at.head / p_.nhead_k;
      job.head_k = at.head % p_.nhead_k;
      take(job, at.tile);
    }
  }

  /// For one thread.
  __device__ void next_tile(TileJob& job) const {
    ++job.tiles.begin;
    job.adds = true;
    begin_tile(job);
  }

 private:
  /// Of the tiles that are left of the job, the first.
  __device__ void begin_tile(TileJob& job) const {
    constexpr int kM = kConfig.kM;
    const std::int64_t key_begin = job.tiles.begin * kConfig.tile_keys();
    job.tile.key_begin = static_cast<int>(key_begin);
    job.tile.first_row = 0;
    job.tile.end_row = static_cast<int>(job.q.physical);
    if constexpr (!kConfig.is_direct) {
      const std::int64_t key_end = key_begin + kConfig.tile_keys();
      const IndexRange rows = rows_seeing(p_.mask, job.q.logical, job.k.logical,
                                          {key_begin, key_end < job.k.logical ? key_end : job.k.logical});
      job.tile.first_row = static_cast<int>(rows.begin / kM * kM);
      job.tile.end_row = static_cast<int>(rows.end);
    }
  }

  __device__ void take(TileJob& job, std::int64_t of_sequence) const {
    job.q = sequence_range(p_, params_.lengths, SequenceSide::q, job.sequence);
    job.k = sequence_range(p_, params_.lengths, SequenceSide::k, job.sequence);
    job.tiles = {of_sequence, of_sequence + 1};
    job.split = 0;
    if (!kConfig.is_direct && p_.is_deterministic) {
      const std::int32_t nsplits = params_.nsplits[p_.is_group_mode ? job.sequence : 0];
      job.split = of_sequence;
      job.tiles = split_range(key_tiles(kConfig.tile_keys(), job.k.physical), nsplits, of_sequence);
    }
    job.tile.group = static_cast<int>(p_.nhead_q / p_.nhead_k);
    job.tile.seqlen_q = static_cast<int>(job.q.logical);
    job.tile.seqlen_k = static_cast<int>(job.k.logical);
    job.tile.band = Band::of(p_.mask, job.tile.seqlen_q, job.tile.seqlen_k);
    begin_tile(job);
  }

  const KernelParams& params_;
  const BackwardArguments& arguments_;
  const Problem& p_;
};

}  // namespace fmhax::portable
