/// @file The query tiles over which a block walks, on their way to shared memory: q, dout, lse and d.
#pragma once

#include "backward_block.cuh"
#include "row_dots.cuh"

namespace fmhax::portable {

/// Where a thread reads the next query tile from, and which tile that is. Copies of a step are begun and ended, as some
/// pass through registers meanwhile.
template <class Block>
class QuerySteps {
  static constexpr BackwardConfig kConfig = Block::kConfig;
  static constexpr int kM = Block::kM;
  static constexpr int kThreads = Block::kThreads;
  static constexpr int kStages = Block::kStages;
  static constexpr int kStatsThreads = kThreads < 2 * kM ? kThreads / 2 : kM;
  static_assert(kM % kStatsThreads == 0);
  using CopyQ = TileCopy<kM, kConfig.hdim_q, Block::kPitchQ, kThreads>;
  using CopyDout = TileCopy<kM, kConfig.hdim_v, Block::kPitchV, kThreads>;
  using Dots = RowDots<Block::kType, kM, kThreads, kConfig.hdim_v>;
  struct Nothing {};
  struct Strides {
    std::int64_t q, dout, stats;
  };
  static constexpr bool kKeepsStrides = Block::kIsAlone;  ///< where reading a parameter means waiting for it

 public:
  struct Held {
    typename CopyQ::Held q;
    typename CopyDout::Held dout;
    float stats[kM / kStatsThreads];
    std::conditional_t<kConfig.is_direct, typename Dots::Parts, Nothing> parts;  ///< of d
  };

  __device__ explicit QuerySteps(Block& block) : block_(block) {}

  /// Brings the first step's tile.
  __device__ __forceinline__ void begin() {
    move_to_head();
    Held held;
    begin_copies(0, held);
    end_copies(0, held);
    advance();
  }

  __device__ __forceinline__ void advance() {
    row_ += kM;
    if (row_ < block_.tile.end_row) {
      const Strides step = strides();
      q_ += kM * step.q;
      dout_ += kM * step.dout;
      stats_ += kM * step.stats;
    } else if (++head_ < block_.tile.group) {
      move_to_head();
    }
  }

  __device__ __forceinline__ void begin_copies(int index, Held& held) const {
    const int rows = block_.tile.seqlen_q - row_;
    const bool is_aligned = block_.is_aligned();
    const Strides stride = strides();
    CopyQ::begin(block_.thread, block_.shared.q[index % kStages], q_, stride.q, rows, block_.hdim_q(), is_aligned,
                 held.q);
    CopyDout::begin(block_.thread, block_.shared.dout[index % kStages], dout_, stride.dout, rows, block_.hdim_v(),
                    is_aligned, held.dout);
#pragma unroll
    for (int i = 0; i < kM; i += kStatsThreads) {
      if (!brings_stats()) break;
      begin_copy4(stats_place(index) + 2 * i, stats_ + i * stride.stats, stats_row() + i < rows,
                  held.stats[i / kStatsThreads]);
    }
    if constexpr (kConfig.is_direct) load_row_parts(held.parts);
  }
  __device__ __forceinline__ void end_copies(int index, const Held& held) const {
    if constexpr (kConfig.is_direct) finish_d(held.parts, index);
    CopyQ::end(block_.thread, block_.shared.q[index % kStages], held.q);
    CopyDout::end(block_.thread, block_.shared.dout[index % kStages], held.dout);
#pragma unroll
    for (int i = 0; i < kM; i += kStatsThreads) {
      if (brings_stats()) end_copy4(stats_place(index) + 2 * i, held.stats[i / kStatsThreads]);
    }
  }

 private:
  /// At the first row of a head.
  __device__ __forceinline__ void move_to_head() {
    const KernelParams& again = arch::read_again<0>(block_.params);
    const TileJob& job = block_.job;
    row_ = block_.tile.first_row;
    const std::int64_t head = block_.head_q(head_);
    q_ = CopyQ::source(block_.thread, block_.rows_of(again.q, job.q, row_, head), again.q.stride_seqlen);
    dout_ = CopyDout::source(block_.thread, block_.rows_of(again.dout, job.q, row_, head), again.dout.stride_seqlen);
    const TensorRef& t = brings_d() ? again.d : again.lse;
    stats_ = static_cast<const float*>(t.data) + block_.offset_of(t, job.q, row_ + stats_row(), head);
    if constexpr (kKeepsStrides)
      strides_ = {arch::computed_here(again.q.stride_seqlen), arch::computed_here(again.dout.stride_seqlen),
                  t.stride_seqlen};
  }

  // A thread brings the number that lies at its own place in `stats`.
  __device__ bool brings_d() const { return (block_.thread & 2) != 0; }
  __device__ bool brings_stats() const {
    return arch::computed_here(block_.thread) < 2 * kStatsThreads && !(kConfig.is_direct && brings_d());
  }
  __device__ int stats_row() const { return block_.thread / 4 * 2 + block_.thread % 2; }
  /// From one row to the next.
  __device__ Strides strides() const {
    if constexpr (kKeepsStrides) {
      return strides_;
    } else {
      const KernelParams& params = block_.params;
      return {params.q.stride_seqlen, params.dout.stride_seqlen, (brings_d() ? params.d : params.lse).stride_seqlen};
    }
  }
  __device__ float* stats_place(int index) const {
    return reinterpret_cast<float*>(block_.shared.stats[index % 2]) + block_.thread;
  }

  /// Asks for what d of the tile is made of.
  __device__ __forceinline__ void load_row_parts(typename Dots::Parts& parts) const {
    const KernelParams& params = arch::read_again<0>(block_.params);
    const TileJob& job = block_.job;
    const int row = row_ + Dots::row(block_.thread);
    const bool is_row = Dots::row(block_.thread) < kM && row < block_.tile.seqlen_q;
    const std::int64_t head = block_.head_q(head_);
    Dots::load(block_.thread, is_row, block_.rows_of(params.dout, job.q, row, head),
               block_.rows_of(params.o, job.q, row, head), block_.hdim_v(), block_.is_aligned(), parts);
    parts.dlse = 0;
    if (params.problem.has_dlse && is_row) {
      parts.dlse = static_cast<const float*>(params.dlse.data)[block_.offset_of(params.dlse, job.q, row, head)];
    }
  }
  __device__ __forceinline__ void finish_d(const typename Dots::Parts& parts, int index) const {
    const float sum = Dots::sum(parts);
    const int row = Dots::row(block_.thread);
    if (row < kM && Dots::is_first(block_.thread)) {
      reinterpret_cast<float*>(block_.shared.stats[index % 2])[row / 2 * 4 + row % 2 + 2] =
          arch::plain_nan(sum - parts.dlse);
    }
  }

  Block& block_;
  const std::uint16_t* q_ = nullptr;
  const std::uint16_t* dout_ = nullptr;
  const float* stats_ = nullptr;  ///< of lse or of d, whichever the thread brings
  Strides strides_{};
  int head_ = 0;  ///< within the key head's group
  int row_ = 0;
};

}  // namespace fmhax::portable
