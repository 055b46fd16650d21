// Small synchronisation pieces: a mutex that spins before it sleeps, and a place where one thread sleeps.
#pragma once

#include <condition_variable>
#include <mutex>

#include <pthread.h>

namespace hiphost {

// For sections of some 100 ns that two threads enter all the time.
class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

// One thread waits, any thread may wake it; a wake before the wait is kept.
class Parker {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }

  void wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    condition_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace hiphost
