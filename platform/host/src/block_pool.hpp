// Runs the blocks of kernels on a fixed pool of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "work.hpp"

namespace hiphost {

class BlockPool {
 public:
  // The pool has `threads` members, of which the thread that calls run() is one.
  explicit BlockPool(int threads) : threads_(threads) {}

  int threads() const noexcept { return threads_; }

  // Runs every block; returns when all are done. False if the kernel threw.
  bool run(const KernelWork& kernel);

  void shutdown();

 private:
  struct Launch;

  void publish(Launch& launch, std::size_t helpers);
  void withdraw(Launch& launch);
  void help();

  const int threads_;
  std::mutex mutex_;
  std::condition_variable helpers_wanted_;
  std::condition_variable helpers_left_;
  std::vector<Launch*> launches_;
  std::vector<std::thread> helpers_;
  std::size_t next_launch_ = 0;
  bool stopping_ = false;
};

}  // namespace hiphost
