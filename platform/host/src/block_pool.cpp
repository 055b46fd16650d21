#include "block_pool.hpp"

#include <hiphost/kernel.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>

#include "explorer.hpp"
#include "runtime.hpp"
#include "sync.hpp"

namespace hiphost {
namespace {

using Clock = std::chrono::steady_clock;

// Below this, waking a helper costs more than it brings.
constexpr std::int64_t kWorthHelpersNs = 10'000;
constexpr int kSpinsForHelpers = 2000;

std::int64_t elapsed_ns(Clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since).count();
}

struct BarrierInLargeBlock {};

// The dynamic shared memory of the thread that runs a block; grows and stays.
class SharedMemory {
 public:
  void* reserve(std::size_t size) {
    if (size > size_) {
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64)));
      if (!memory_) throw std::bad_alloc();
      size_ = size;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

thread_local SharedMemory shared_memory;
constinit thread_local void* current_shared = nullptr;
constinit thread_local std::size_t current_shared_bytes = 0;

void run_threads_of_block(const KernelInfo& kernel, void** args) {
  KernelPosition& here = kernel_position;
  const Index3 size = here.block_size;
  for (std::uint32_t z = 0; z < size.z; ++z) {
    for (std::uint32_t y = 0; y < size.y; ++y) {
      for (std::uint32_t x = 0; x < size.x; ++x) {
        here.thread = {x, y, z};
        kernel.thunk(kernel.function, args);
      }
    }
  }
}

}  // namespace

struct BlockPool::Launch {
  const KernelWork& work;
  const std::uint64_t blocks;
  const bool single_thread;
  std::array<void*, 32> inline_args;
  std::vector<void*> more_args;
  void** args = inline_args.data();
  std::atomic<bool> failed{false};
  // Written by every thread that takes part; on lines of their own.
  alignas(64) std::atomic<std::uint64_t> next{0};
  alignas(64) std::atomic<int> helpers{0};
  int wanted = 0;                              // under the pool's lock
  const std::uint64_t* permutation = nullptr;  // the order of the blocks; null: as they are numbered

  explicit Launch(const KernelWork& kernel)
      : work(kernel),
        blocks(std::uint64_t{kernel.grid.x} * kernel.grid.y * kernel.grid.z),
        single_thread(std::uint64_t{kernel.block.x} * kernel.block.y * kernel.block.z == 1) {
    const KernelInfo& info = *kernel.kernel;
    if (info.sizes.size() > inline_args.size()) {
      more_args.resize(info.sizes.size());
      args = more_args.data();
    }
    auto* packed = const_cast<std::byte*>(kernel.args.data());
    for (std::size_t i = 0; i < info.sizes.size(); ++i) args[i] = packed + info.offsets[i];
  }

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= blocks; }

  // Runs blocks until none is left, or for a stretch that ends at `limit`.
  void take_part(std::uint64_t limit) {
    const HostFunctionScope scope;
    KernelPosition& here = kernel_position;
    const KernelPosition outer = here;
    void* const outer_shared = current_shared;
    const std::size_t outer_shared_bytes = current_shared_bytes;
    try {
      const dim3 grid = work.grid;
      here.grid_size = {grid.x, grid.y, grid.z};
      here.block_size = {work.block.x, work.block.y, work.block.z};
      here.thread = {0, 0, 0};
      current_shared = work.shared_bytes != 0 ? shared_memory.reserve(work.shared_bytes) : nullptr;
      current_shared_bytes = work.shared_bytes;
      while (next.load(std::memory_order_relaxed) < limit) {
        const std::uint64_t turn = next.fetch_add(1, std::memory_order_relaxed);
        if (turn >= blocks) break;
        const std::uint64_t i = permutation != nullptr ? permutation[turn] : turn;
        const std::uint64_t row = i / grid.x;
        here.block = {static_cast<std::uint32_t>(i - row * grid.x), static_cast<std::uint32_t>(row % grid.y),
                      static_cast<std::uint32_t>(row / grid.y)};
        if (single_thread) {
          work.kernel->thunk(work.kernel->function, args);
        } else {
          run_threads_of_block(*work.kernel, args);
        }
      }
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      next.store(blocks, std::memory_order_relaxed);
    }
    here = outer;
    current_shared = outer_shared;
    current_shared_bytes = outer_shared_bytes;
  }
};

bool BlockPool::run(const KernelWork& kernel) {
  Launch launch(kernel);
  if (Explorer* explorer = exploring()) {
    const std::vector<std::uint64_t> order = explorer->block_order(kernel, launch.blocks);
    if (!order.empty()) launch.permutation = order.data();
    launch.take_part(launch.blocks);
    return !launch.failed.load(std::memory_order_relaxed);
  }
  const Clock::time_point start = Clock::now();
  const std::uint32_t known_ns = kernel.kernel->block_ns.load(std::memory_order_relaxed);
  const bool may_help = threads_ > 1 && launch.blocks > 1;
  bool helped = may_help && (known_ns == 0 || static_cast<double>(known_ns) * static_cast<double>(launch.blocks) >
                                                  static_cast<double>(kWorthHelpersNs));
  if (!may_help) {
    launch.take_part(launch.blocks);
  } else if (!helped) {
    // Believed to be short: look at the clock now and then, and ask for help if that was wrong.
    for (std::uint64_t limit = 1; !launch.exhausted(); limit *= 2) {
      launch.take_part(limit);
      if (!launch.exhausted() && elapsed_ns(start) > kWorthHelpersNs) {
        helped = true;
        break;
      }
    }
  }
  std::uint64_t members = 1;
  if (helped) {
    members = std::min<std::uint64_t>(launch.blocks, static_cast<std::uint64_t>(threads_));
    publish(launch, static_cast<std::size_t>(members - 1));
    launch.take_part(launch.blocks);
    withdraw(launch);
  }
  const std::uint64_t per_block =
      static_cast<std::uint64_t>(elapsed_ns(start)) * members / std::max<std::uint64_t>(launch.blocks, 1);
  kernel.kernel->block_ns.store(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(per_block, 1, UINT32_MAX)),
                                std::memory_order_relaxed);
  return !launch.failed.load(std::memory_order_relaxed);
}

void BlockPool::publish(Launch& launch, std::size_t helpers) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  launch.wanted = static_cast<int>(helpers);
  launches_.push_back(&launch);
  while (helpers_.size() < static_cast<std::size_t>(threads_ - 1)) helpers_.emplace_back([this] { help(); });
  helpers == 1 ? helpers_wanted_.notify_one() : helpers_wanted_.notify_all();
}

void BlockPool::withdraw(Launch& launch) {
  {
    std::lock_guard lock(mutex_);
    std::erase(launches_, &launch);
  }
  // Helpers are in their last block now; that is short more often than not.
  for (int i = 0; i < kSpinsForHelpers && launch.helpers.load(std::memory_order_acquire) != 0; ++i) cpu_relax();
  std::unique_lock lock(mutex_);
  helpers_left_.wait(lock, [&] { return launch.helpers.load(std::memory_order_acquire) == 0; });
}

void BlockPool::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    Launch* chosen = nullptr;
    // Starts the search after the launch helped last, so that kernels which run at the same time all get helpers.
    for (std::size_t i = 0; i < launches_.size() && chosen == nullptr; ++i) {
      Launch* candidate = launches_[(next_launch_ + i) % launches_.size()];
      if (candidate->wanted > 0 && !candidate->exhausted()) chosen = candidate;
    }
    if (chosen == nullptr) {
      if (stopping_) return;
      helpers_wanted_.wait(lock);
      continue;
    }
    ++next_launch_;
    --chosen->wanted;
    chosen->helpers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    chosen->take_part(chosen->blocks);
    lock.lock();
    // Under the lock, since the launch is gone as soon as its owner sees no helper.
    chosen->helpers.fetch_sub(1, std::memory_order_release);
    helpers_left_.notify_all();
  }
}

void BlockPool::shutdown() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    // Helpers of a kernel that never ends can't be joined; they end with the process.
    if (!launches_.empty()) {
      for (std::thread& helper : helpers_) helper.detach();
      helpers_.clear();
    }
  }
  helpers_wanted_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

}  // namespace hiphost

void* hiphost_dynamic_shared() { return hiphost::current_shared; }

std::size_t hiphost_dynamic_shared_bytes() { return hiphost::current_shared_bytes; }

void hiphost_syncthreads() {
  const hiphost::Index3 size = hiphost::block_dim();
  if (std::uint64_t{size.x} * size.y * size.z > 1) throw hiphost::BarrierInLargeBlock{};
}
