#include <hiphost/observe.hpp>

#include "api.hpp"

namespace hiphost {

class ApiObservation::Hook final : public ApiHook {
 public:
  explicit Hook(ApiObserver& observer) : observer_(observer) {}
  hipError_t entered(const char* function) noexcept override {
    observer_.entered(function);
    return hipSuccess;
  }
  void left(const char* function, hipError_t result) noexcept override { observer_.left(function, result); }

 private:
  ApiObserver& observer_;
};

ApiObservation::ApiObservation(ApiObserver& observer) : hook_(new Hook(observer)) { set_api_hook(hook_); }

ApiObservation::~ApiObservation() {
  set_api_hook(nullptr);
  delete hook_;
}

}  // namespace hiphost
