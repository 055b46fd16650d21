// Watching the HIP calls that a program makes: which, how many, from which thread.
#pragma once

#include <hip/hip_runtime_api.h>

namespace hiphost {

// Told of every call of the HIP API on the thread that makes it, nested ones included, so it must be quick, make no HIP
// call itself and be safe to use from many threads.
class ApiObserver {
 public:
  virtual ~ApiObserver() = default;
  virtual void entered(const char* function) noexcept = 0;
  virtual void left(const char* function, hipError_t result) noexcept = 0;
};

// Observes while it lives; one at a time, and not together with a FaultInjection. It begins and ends while no call is
// being made.
class ApiObservation {
 public:
  explicit ApiObservation(ApiObserver& observer);
  ~ApiObservation();
  ApiObservation(const ApiObservation&) = delete;
  ApiObservation& operator=(const ApiObservation&) = delete;

 private:
  class Hook;
  Hook* hook_;
};

}  // namespace hiphost
