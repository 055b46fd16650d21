/// @file Tiny calls with known gradients, that the scenarios of `fmhax explore` put into streams and graphs.
#pragma once

#include <hip/hip_runtime.h>
#include <hiphost/fault.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fmhax/executor.hpp"
#include "fmhax/tensor.hpp"
#include "verification/device_buffer.hpp"

namespace fmhax::tool {

/// A hipMalloc'ed or hipHostMalloc'ed array.
class ExploredMemory {
 public:
  enum class Kind { device, pinned };
  ExploredMemory(Kind kind, std::size_t bytes);
  ~ExploredMemory();
  ExploredMemory(const ExploredMemory&) = delete;
  ExploredMemory& operator=(const ExploredMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Kind kind_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// What tells one explored call from another.
struct CallShape {
  Problem problem;                                 ///< deterministic
  std::string kernel;                              ///< ending of the kernel's name, e.g. "general"
  std::vector<std::vector<std::int32_t>> lengths;  ///< group mode: of each variant, batch entries
  ExecutorOptions options = {};
};

/// Executor, tensors and workspace of one problem with a few variants of its lengths, and the gradients of each variant
/// as the call alone gives them.
class ExploredCall {
 public:
  explicit ExploredCall(const CallShape& shape);
  ~ExploredCall();
  ExploredCall(const ExploredCall&) = delete;
  ExploredCall& operator=(const ExploredCall&) = delete;

  const Executor& executor() const { return *executor_; }
  CallArguments arguments() const { return arguments_; }
  std::size_t variants() const { return expected_.size(); }
  /// Lengths of a variant in host memory.
  SequenceLengths host_lengths(std::size_t variant) const;

  /// Enqueues the lengths of a variant, and NaN into the outputs and the workspace.
  void upload(std::size_t variant, hipStream_t stream) const;
  /// Enqueues a copy of the outputs to the next free result; check() compares it with what the variant gives.
  void download(std::size_t variant, hipStream_t stream);
  /// Forgets the results; the work that writes them must be over.
  void forget_results() { used_results_.clear(); }
  /// Compares all results; the first difference in words, empty: none.
  std::string mismatch() const;

 private:
  struct Result {
    std::size_t variant;
    std::size_t slot;
  };
  static constexpr std::size_t kResults = 16;

  void name_transfers(const void* address, const char* name);
  void name_nodes();

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ExploredMemory> inputs_, outputs_, workspace_, device_lengths_, variant_lengths_, results_;
  std::size_t lengths_bytes_ = 0;  ///< of one variant
  CallArguments arguments_;
  std::vector<std::vector<std::byte>> expected_;
  std::vector<Result> used_results_;
  std::vector<const void*> named_;  ///< addresses that reports know by name
};

/// Everything that the scenarios use; made once. Its calls are idle between two runs.
struct ExploredWorld {
  ExploredWorld();

  /// Allocators of the caller's, which can be told to fail.
  struct Allocators {
    std::uint64_t calls = 0;
    std::uint64_t failing_call = 0;  ///< from 1; 0: none
    bool throws = true;              ///< else it returns null
    bool failed = false;
    hipStream_t stream = nullptr;  ///< on which memory that must read as zero is cleared
    bool fails_now();              ///< counts a call; throws when it is the one and throws is set
  };
  struct AllocatorFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  std::vector<ExploredCall*> all() const;
  /// Calls `library` with faults on, if there are any: only what happens there counts.
  void in_library(const std::function<void()>& library);

  Allocators allocators;
  hiphost::FaultInjection* faults = nullptr;
  std::unique_ptr<ExploredCall> group, logical, batch, direct, wide, group_host_function, group_on_device,
      own_allocators;
  std::vector<verification::OwnedStream> streams;
};

}  // namespace fmhax::tool
