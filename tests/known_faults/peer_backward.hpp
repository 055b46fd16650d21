/// @file A backward pass as one writes it by hand around the kernels, with the mistakes that were made that way.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

#include "call_fixture.hpp"
#include "executor_state.hpp"
#include "staging.hpp"

namespace fmhax::test {

/// What the hand-written preparation gets wrong; by default nothing.
struct PeerFaults {
  bool closure_frees_itself = false;    ///< the host function's closure is gone after its first run
  bool packs_when_enqueued = false;     ///< metadata are packed at once; only their upload is enqueued
  bool zeroes_first_call_only = false;  ///< dq_acc is zeroed by the first call on a stream, as state of that stream
  std::int32_t frozen_max_seqlen = 0;   ///< lengths are cut to this, the longest at capture (0: not)
};

/// The call's whole backward pass on a stream. Its staging comes from the library's pool and is given back when this
/// object goes, or before by release_staging().
class PeerBackward {
 public:
  explicit PeerBackward(Call& call, PeerFaults faults = {});
  ~PeerBackward() { release_staging(); }
  PeerBackward(const PeerBackward&) = delete;
  PeerBackward& operator=(const PeerBackward&) = delete;

  void enqueue(hipStream_t stream);
  void release_staging() { lease_ = {}; }
  /// Runs of the host function after its closure was freed.
  int uses_after_free() const { return closure_.uses_after_free; }

 private:
  /// Stays where it is when it is "freed", so that its use can be counted rather than crash.
  struct Closure {
    void* job = nullptr;
    std::int32_t* starts[2] = {nullptr, nullptr};
    std::size_t entries = 0;
    std::int32_t frozen_max_seqlen = 0;
    bool frees_itself = false;
    bool is_freed = false;
    int uses_after_free = 0;
  };
  static void run(void* closure);

  Call& call_;
  const PeerFaults faults_;
  detail::StagingLease lease_;
  Closure closure_;
  verification::GuardedBuffer cut_starts_[2];
  bool has_zeroed_ = false;
};

}  // namespace fmhax::test
