/// @file Micro-batches: what goes up to the device and what comes back, each as one block of bytes, so that one copy
/// moves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmhax/fmhax.hpp"

namespace fmhax::sample {

/// fp32, causal, deterministic, packed sequences of 16 to max_seqlen tokens.
Problem make_problem(std::int64_t tokens, std::int64_t nhead, std::int64_t hdim, std::int64_t max_seqlen);

/// Where each array lies in its block; offsets in bytes, from the problem's capacity.
class MicroBatchLayout {
 public:
  explicit MicroBatchLayout(const Problem& problem);

  /// q, k, v, o, dout, lse, sequence starts: saved by the forward pass, wanted by the backward pass.
  std::size_t input_bytes() const noexcept { return input_bytes_; }
  /// dq, dk, dv.
  std::size_t output_bytes() const noexcept { return 3 * tensor_bytes_; }
  std::size_t d_bytes() const noexcept { return rows_bytes_; }

  /// The call that reads `inputs` and writes `outputs`, with `d` as scratch: device memory of the sizes above.
  CallArguments arguments(std::byte* inputs, std::byte* outputs, std::byte* d) const;

 private:
  friend std::vector<std::vector<std::byte>> make_micro_batches(const Executor&, const MicroBatchLayout&, std::size_t,
                                                                std::uint32_t);

  Problem problem_;
  std::size_t tensor_bytes_;
  std::size_t rows_bytes_;
  std::size_t input_bytes_;
};

/// Input blocks in ordinary host memory: random q, k, v, dout, a different split into sequences in each, and o and lse
/// from the forward pass. Waits for the device.
std::vector<std::vector<std::byte>> make_micro_batches(const Executor& executor, const MicroBatchLayout& layout,
                                                       std::size_t count, std::uint32_t seed);

}  // namespace fmhax::sample
