#include "fmhax/status.hpp"

#include <hip/hip_runtime.h>

#include <new>

#include "fmhax/contract/status_access.hpp"
#include "hip_calls.hpp"

namespace fmhax {

StatusBuffer StatusBuffer::create() {
  const detail::RelaxedCapture relaxed;
  void* memory = nullptr;
  FMHAX_HIP(hipHostMalloc, &memory, sizeof(CallStatus), hipHostMallocDefault);
  StatusBuffer buffer;
  buffer.status_ = std::shared_ptr<CallStatus>(new (memory) CallStatus{}, [](CallStatus* status) {
    const detail::RelaxedCapture relaxed_again;
    (void)hipHostFree(status);
  });
  return buffer;
}

CallStatus StatusBuffer::read() const noexcept { return status_ ? load_status(*status_) : CallStatus{}; }

}  // namespace fmhax
