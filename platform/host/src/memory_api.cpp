#include "api.hpp"
#include "capture.hpp"

using namespace hiphost;

namespace {

constexpr unsigned kHostFlags = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined |
                                hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
constexpr unsigned kRegisterFlags =
    hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | hipHostRegisterReadOnly;
constexpr size_t kPitchAlignment = 256;

// Calls that allocate or free could wait for the device on a real one, so captures forbid them all.
hipError_t check_capture(Runtime& rt) {
  Lock lock(rt.mutex);
  return check_unsafe_call(rt);
}

hipError_t allocate(void** out, size_t size, MemoryKind kind, unsigned flags) {
  if (out == nullptr) return hipErrorInvalidValue;
  Runtime& rt = runtime();
  if (const hipError_t refused = check_capture(rt); refused != hipSuccess) return refused;
  return rt.memory.allocate(size, kind, thread_state.device, flags, out);
}

hipError_t allocate_host(void** out, size_t size, unsigned flags) {
  if ((flags & ~kHostFlags) != 0) return hipErrorInvalidValue;
  if ((flags & hipHostMallocCoherent) != 0 && (flags & hipHostMallocNonCoherent) != 0) return hipErrorInvalidValue;
  return allocate(out, size, MemoryKind::kPinned, flags);
}

// Frees memory after everything on its device, or on all for host memory, has ended.
hipError_t free_after_sync(void* pointer, bool host) {
  if (pointer == nullptr) return hipSuccess;
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  if (const hipError_t refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
  if (const hipError_t status = rt.memory.check_start(pointer, host); status != hipSuccess) return status;
  const auto range = rt.memory.find(pointer);
  std::vector<Ref<Task>> tasks;
  for (const auto& device : rt.devices) {
    if (range->kind == MemoryKind::kDevice && device->index != range->device) continue;
    for (Ref<Task>& task : unfinished_work(*device)) tasks.push_back(std::move(task));
  }
  if (const hipError_t status = rt.memory.begin_free(pointer); status != hipSuccess) return status;
  lock.unlock();
  for (const Ref<Task>& task : tasks) {
    // After shutdown tasks that never ran keep their memory; it goes with the process.
    if (!rt.scheduler.wait(*task)) return hipErrorDeinitialized;
  }
  rt.memory.release(pointer);
  return hipSuccess;
}

hipError_t allocate_pitched(void** out, size_t* pitch, size_t width, size_t height, size_t depth) {
  if (out == nullptr || pitch == nullptr) return hipErrorInvalidValue;
  size_t rows = 0, bytes = 0;
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  if (*pitch < width || __builtin_mul_overflow(height, depth, &rows) || __builtin_mul_overflow(*pitch, rows, &bytes)) {
    return hipErrorInvalidValue;
  }
  return allocate(out, bytes, MemoryKind::kDevice, 0);
}

}  // namespace

extern "C" {

hipError_t hipMalloc(void** ptr, size_t size) {
  FMHAX_HIP_API({ return allocate(ptr, size, MemoryKind::kDevice, 0); });
}

hipError_t hipMallocPitch(void** ptr, size_t* pitch, size_t width, size_t height) {
  FMHAX_HIP_API({ return allocate_pitched(ptr, pitch, width, height, 1); });
}

hipError_t hipMalloc3D(hipPitchedPtr* pitchedDevPtr, hipExtent extent) {
  FMHAX_HIP_API({
    if (pitchedDevPtr == nullptr) return hipErrorInvalidValue;
    void* base = nullptr;
    size_t pitch = 0;
    const hipError_t status = allocate_pitched(&base, &pitch, extent.width, extent.height, extent.depth);
    if (status == hipSuccess) *pitchedDevPtr = make_hipPitchedPtr(base, pitch, extent.width, extent.height);
    return status;
  });
}

hipError_t hipFree(void* ptr) {
  FMHAX_HIP_API({ return free_after_sync(ptr, false); });
}

// The address is valid at once: nothing else has it, so no order with other work is needed.
hipError_t hipMallocAsync(void** dev_ptr, size_t size, hipStream_t stream) {
  FMHAX_HIP_API({
    if (dev_ptr == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (target->capture) return hipErrorNotSupported;
    if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
    const int device = target->device.index;
    lock.unlock();
    return rt.memory.allocate(size, MemoryKind::kDevice, device, 0, dev_ptr);
  });
}

hipError_t hipFreeAsync(void* dev_ptr, hipStream_t stream) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (dev_ptr == nullptr) return hipErrorInvalidValue;
    if (target->capture) return hipErrorNotSupported;
    if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
    if (const hipError_t status = rt.memory.check_start(dev_ptr, false); status != hipSuccess) return status;
    if (const hipError_t status = rt.memory.begin_free(dev_ptr); status != hipSuccess) return status;
    return dispatch(rt, *target, FreeWork{dev_ptr});
  });
}

hipError_t hipMallocManaged(void** dev_ptr, size_t size, unsigned int flags) {
  FMHAX_HIP_API({
    if (flags != hipMemAttachGlobal && flags != hipMemAttachHost) return hipErrorInvalidValue;
    if (size == 0) return hipErrorInvalidValue;
    return allocate(dev_ptr, size, MemoryKind::kManaged, flags);
  });
}

hipError_t hipHostMalloc(void** ptr, size_t size, unsigned int flags) {
  FMHAX_HIP_API({ return allocate_host(ptr, size, flags); });
}

hipError_t hipHostAlloc(void** ptr, size_t size, unsigned int flags) {
  FMHAX_HIP_API({ return allocate_host(ptr, size, flags); });
}

hipError_t hipExtHostAlloc(void** ptr, size_t size, unsigned int flags) {
  FMHAX_HIP_API({ return allocate_host(ptr, size, flags); });
}

hipError_t hipMallocHost(void** ptr, size_t size) {
  FMHAX_HIP_API({ return allocate_host(ptr, size, hipHostMallocDefault); });
}

hipError_t hipHostFree(void* ptr) {
  FMHAX_HIP_API({ return free_after_sync(ptr, true); });
}

hipError_t hipFreeHost(void* ptr) {
  FMHAX_HIP_API({ return free_after_sync(ptr, true); });
}

hipError_t hipHostGetDevicePointer(void** devPtr, void* hstPtr, unsigned int flags) {
  FMHAX_HIP_API_ANYWHERE({
    if (devPtr == nullptr || hstPtr == nullptr || flags != 0) return hipErrorInvalidValue;
    const auto range = runtime().memory.find(hstPtr);
    if (!range || range->freeing || !range->host_accessible()) return hipErrorInvalidValue;
    *devPtr = hstPtr;
    return hipSuccess;
  });
}

hipError_t hipHostGetFlags(unsigned int* flagsPtr, void* hostPtr) {
  FMHAX_HIP_API_ANYWHERE({
    if (flagsPtr == nullptr || hostPtr == nullptr) return hipErrorInvalidValue;
    const auto range = runtime().memory.find(hostPtr);
    if (!range || range->freeing || !range->host_accessible()) return hipErrorInvalidValue;
    *flagsPtr = range->flags;
    return hipSuccess;
  });
}

hipError_t hipHostRegister(void* hostPtr, size_t sizeBytes, unsigned int flags) {
  FMHAX_HIP_API({
    if ((flags & ~kRegisterFlags) != 0) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    if (const hipError_t refused = check_capture(rt); refused != hipSuccess) return refused;
    return rt.memory.add_registered(hostPtr, sizeBytes, thread_state.device, flags);
  });
}

hipError_t hipHostUnregister(void* hostPtr) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    if (const hipError_t refused = check_capture(rt); refused != hipSuccess) return refused;
    return rt.memory.remove_registered(hostPtr);
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
  FMHAX_HIP_API_ANYWHERE({
    if (attributes == nullptr || ptr == nullptr) return hipErrorInvalidValue;
    *attributes = hipPointerAttribute_t{};
    const auto range = runtime().memory.find(ptr);
    if (!range || range->freeing) {
      attributes->type = hipMemoryTypeUnregistered;
      attributes->device = hipInvalidDeviceId;
      return hipSuccess;
    }
    void* const pointer = const_cast<void*>(ptr);
    const bool managed = range->kind == MemoryKind::kManaged;
    attributes->type = managed                    ? hipMemoryTypeManaged
                       : range->host_accessible() ? hipMemoryTypeHost
                                                  : hipMemoryTypeDevice;
    attributes->device = range->device;
    attributes->devicePointer = pointer;
    attributes->hostPointer = range->host_accessible() ? pointer : nullptr;
    attributes->isManaged = managed ? 1 : 0;
    attributes->allocationFlags = range->flags;
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* pbase, size_t* psize, hipDeviceptr_t dptr) {
  FMHAX_HIP_API_ANYWHERE({
    if (pbase == nullptr || psize == nullptr || dptr == nullptr) return hipErrorInvalidValue;
    const auto range = runtime().memory.find(dptr);
    if (!range || range->freeing) return hipErrorNotFound;
    *pbase = range->pointer();
    *psize = range->size;
    return hipSuccess;
  });
}

hipError_t hipMemPtrGetInfo(void* ptr, size_t* size) {
  FMHAX_HIP_API_ANYWHERE({
    if (size == nullptr || ptr == nullptr) return hipErrorInvalidValue;
    const auto range = runtime().memory.find(ptr);
    if (!range || range->freeing) return hipErrorInvalidValue;
    *size = range->size;
    return hipSuccess;
  });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  FMHAX_HIP_API({
    const Runtime& rt = runtime();
    if (free != nullptr) *free = rt.memory.free(thread_state.device);
    if (total != nullptr) *total = rt.memory.total(thread_state.device);
    return hipSuccess;
  });
}

}  // extern "C"
