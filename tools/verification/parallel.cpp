#include "verification/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace fmhax::verification {
namespace {

thread_local int thread_limit = 0;

}  // namespace

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  };
  std::vector<std::jthread> helpers;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, count); ++i) helpers.emplace_back(work);
  work();
}

int useful_threads(double operations) {
  // Starting a thread costs tens of microseconds, a million operations a millisecond.
  if (operations < 1e6) return 1;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return thread_limit > 0 ? std::min(cores, thread_limit) : cores;
}

ThreadLimit::ThreadLimit(int threads) : outer_(thread_limit) { thread_limit = threads; }

ThreadLimit::~ThreadLimit() { thread_limit = outer_; }

}  // namespace fmhax::verification
