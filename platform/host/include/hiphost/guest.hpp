// A device that is somewhere else, such as an emulated GPU, behind this runtime's streams, events and graphs.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

namespace hiphost {

// Called from any thread. Its kernels are registered as others are (hiphost/kernel.hpp), by thunks that hand them on.
class GuestDevice {
 public:
  virtual ~GuestDevice() = default;
  // Changes the host's properties where the guest's differ.
  virtual void describe(hipDeviceProp_t& properties) const noexcept = 0;
  // Device and pinned memory, which this process can use too, aligned to 256 bytes; null when there is none.
  virtual void* allocate(std::size_t size) noexcept = 0;
  virtual void release(void* memory, std::size_t size) noexcept = 0;
};

// Once, before the first call of the HIP API. The guest takes the place of every device and must outlive all calls.
void set_guest_device(GuestDevice& guest) noexcept;

}  // namespace hiphost
