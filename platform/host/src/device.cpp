#include <algorithm>
#include <cstring>
#include <string>

#include "api.hpp"
#include "device_properties.hpp"

using namespace hiphost;

namespace {

constexpr int kVersion = HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH;

int device_count() { return static_cast<int>(runtime().devices.size()); }

bool valid_device(int device) { return device >= 0 && device < device_count(); }

}  // namespace

extern "C" {

hipError_t hipInit(unsigned int flags) {
  FMHAX_HIP_API_ANYWHERE({
    if (flags != 0) return hipErrorInvalidValue;
    return device_count() == 0 ? hipErrorNoDevice : hipSuccess;
  });
}

hipError_t hipDriverGetVersion(int* driverVersion) {
  FMHAX_HIP_API_ANYWHERE({
    if (driverVersion == nullptr) return hipErrorInvalidValue;
    *driverVersion = kVersion;
    return hipSuccess;
  });
}

hipError_t hipRuntimeGetVersion(int* runtimeVersion) {
  FMHAX_HIP_API_ANYWHERE({
    if (runtimeVersion == nullptr) return hipErrorInvalidValue;
    *runtimeVersion = kVersion;
    return hipSuccess;
  });
}

hipError_t hipGetDeviceCount(int* count) {
  FMHAX_HIP_API_ANYWHERE({
    if (count == nullptr) return hipErrorInvalidValue;
    *count = device_count();
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
  });
}

hipError_t hipSetDevice(int deviceId) {
  FMHAX_HIP_API_ANYWHERE({
    if (!valid_device(deviceId)) return hipErrorInvalidDevice;
    thread_state.device = deviceId;
    return hipSuccess;
  });
}

hipError_t hipGetDevice(int* deviceId) {
  FMHAX_HIP_API_ANYWHERE({
    if (deviceId == nullptr) return hipErrorInvalidValue;
    *deviceId = thread_state.device;
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  FMHAX_HIP_API_ANYWHERE({
    if (device == nullptr) return hipErrorInvalidValue;
    if (!valid_device(ordinal)) return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int len, hipDevice_t device) {
  FMHAX_HIP_API_ANYWHERE({
    if (name == nullptr || len <= 0) return hipErrorInvalidValue;
    if (!valid_device(device)) return hipErrorInvalidDevice;
    const std::string text = device_name(runtime());
    const auto count = std::min(text.size(), static_cast<size_t>(len) - 1);
    std::memcpy(name, text.data(), count);
    name[count] = '\0';
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  FMHAX_HIP_API_ANYWHERE({
    if (bytes == nullptr) return hipErrorInvalidValue;
    if (!valid_device(device)) return hipErrorInvalidDevice;
    *bytes = runtime().memory.total(device);
    return hipSuccess;
  });
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t* prop, int deviceId) {
  FMHAX_HIP_API_ANYWHERE({
    if (prop == nullptr) return hipErrorInvalidValue;
    if (!valid_device(deviceId)) return hipErrorInvalidDevice;
    *prop = device_properties(runtime(), deviceId);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* pi, hipDeviceAttribute_t attr, int deviceId) {
  FMHAX_HIP_API_ANYWHERE({
    if (pi == nullptr) return hipErrorInvalidValue;
    if (!valid_device(deviceId)) return hipErrorInvalidDevice;
    return device_attribute(device_properties(runtime(), deviceId), attr, *pi) ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipGetDeviceFlags(unsigned int* flags) {
  FMHAX_HIP_API_ANYWHERE({
    if (flags == nullptr) return hipErrorInvalidValue;
    *flags = hipDeviceScheduleAuto;
    return hipSuccess;
  });
}

hipError_t hipSetDeviceFlags(unsigned flags) {
  FMHAX_HIP_API_ANYWHERE({
    constexpr unsigned kKnown = hipDeviceScheduleMask | hipDeviceMapHost;
    return (flags & ~kKnown) == 0 ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipDeviceCanAccessPeer(int* canAccessPeer, int deviceId, int peerDeviceId) {
  FMHAX_HIP_API_ANYWHERE({
    if (canAccessPeer == nullptr) return hipErrorInvalidValue;
    if (!valid_device(deviceId) || !valid_device(peerDeviceId)) return hipErrorInvalidDevice;
    *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
    return hipSuccess;
  });
}

// All devices share the host's memory, so access is always there.
hipError_t hipDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) {
  FMHAX_HIP_API_ANYWHERE({
    if (flags != 0) return hipErrorInvalidValue;
    return valid_device(peerDeviceId) && peerDeviceId != thread_state.device ? hipSuccess : hipErrorInvalidDevice;
  });
}

hipError_t hipDeviceDisablePeerAccess(int peerDeviceId) {
  FMHAX_HIP_API_ANYWHERE({
    return valid_device(peerDeviceId) && peerDeviceId != thread_state.device ? hipSuccess : hipErrorInvalidDevice;
  });
}

// Waits for the device and forgets its failure; streams, events and memory stay, unlike on a real one.
hipError_t hipDeviceReset(void) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Device& device = current_device(rt);
    const std::vector<Ref<Task>> tasks = unfinished_work(device);
    lock.unlock();
    const hipError_t status = wait_for(rt, tasks, device);
    device.failure.store(hipSuccess);
    return status == hipErrorDeinitialized ? status : hipSuccess;
  });
}

}  // extern "C"
