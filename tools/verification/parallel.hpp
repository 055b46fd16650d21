/// @file A loop over independent pieces of work on all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace fmhax::verification {

/// Calls body(0) .. body(count - 1), each once, on up to hardware_concurrency threads, and returns when all
/// are done. The body must not throw. With `threads` 1 everything runs on the calling thread.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

/// Threads worth starting for this many floating-point operations, at most what the calling thread's ThreadLimit says.
int useful_threads(double operations);

/// While it lives, useful_threads() on this thread gives at most `threads`; 0: no limit. For work that is itself one of
/// many pieces running side by side.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int outer_;
};

}  // namespace fmhax::verification
