// What a device of the CPU runtime says of itself.
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

#include "runtime.hpp"

namespace hiphost {

std::string device_name(const Runtime& rt);
hipDeviceProp_t device_properties(const Runtime& rt, int device);
// False for attributes that HIP doesn't know.
bool device_attribute(const hipDeviceProp_t& properties, hipDeviceAttribute_t attribute, int& value);

}  // namespace hiphost
