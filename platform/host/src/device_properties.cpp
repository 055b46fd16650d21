#include "device_properties.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "guest.hpp"
#include "kernel_params.hpp"

namespace hiphost {
namespace {

constexpr int kClockKilohertz = 2'000'000;
// Timers count nanoseconds.
constexpr int kTimerKilohertz = 1'000'000;

int clipped(std::size_t value) { return static_cast<int>(std::min<std::size_t>(value, INT_MAX)); }

}  // namespace

std::string device_name(const Runtime& rt) { return "fmhax host (" + std::to_string(rt.pool.threads()) + " threads)"; }

hipDeviceProp_t device_properties(const Runtime& rt, int device) {
  hipDeviceProp_t p;
  std::memset(&p, 0, sizeof(p));
  std::snprintf(p.name, sizeof(p.name), "%s", device_name(rt).c_str());
  std::snprintf(p.uuid.bytes, sizeof(p.uuid.bytes), "fmhax-host-%03d", device);
  std::snprintf(p.gcnArchName, sizeof(p.gcnArchName), "host");
  p.totalGlobalMem = rt.memory.total(device);
  p.sharedMemPerBlock = p.sharedMemPerBlockOptin = kMostSharedBytes;
  p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = kMostSharedBytes;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 1;
  p.memPitch = INT_MAX;
  p.maxThreadsPerBlock = p.maxThreadsPerMultiProcessor = static_cast<int>(kMostBlockThreads);
  for (int& limit : p.maxThreadsDim) limit = static_cast<int>(kMostBlockThreads);
  p.maxGridSize[0] = static_cast<int>(kMostGridX);
  p.maxGridSize[1] = p.maxGridSize[2] = static_cast<int>(kMostGridYZ);
  p.clockRate = p.memoryClockRate = kClockKilohertz;
  p.clockInstructionRate = kTimerKilohertz;
  p.totalConstMem = INT_MAX;
  p.major = HIP_VERSION_MAJOR;
  p.minor = HIP_VERSION_MINOR;
  p.textureAlignment = p.texturePitchAlignment = p.surfaceAlignment = 256;
  p.deviceOverlap = 1;
  p.multiProcessorCount = rt.pool.threads();
  p.integrated = 1;
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.pciDeviceID = device;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 64;
  p.l2CacheSize = 1 << 20;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.managedMemory = p.concurrentManagedAccess = 1;
  p.hostNativeAtomicSupported = 1;
  p.pageableMemoryAccess = p.pageableMemoryAccessUsesHostPageTables = 1;
  p.canUseHostPointerForRegisteredMem = p.hostRegisterSupported = 1;
  p.directManagedMemAccessFromHost = 1;
  p.maxBlocksPerMultiProcessor = 1;
  p.memoryPoolsSupported = 1;
  p.unifiedFunctionPointers = 1;
  p.isLargeBar = 1;
  p.arch.hasGlobalInt32Atomics = p.arch.hasGlobalInt64Atomics = 1;
  p.arch.hasSharedInt32Atomics = p.arch.hasSharedInt64Atomics = 1;
  p.arch.hasGlobalFloatAtomicExch = p.arch.hasSharedFloatAtomicExch = p.arch.hasFloatAtomicAdd = 1;
  p.arch.hasDoubles = p.arch.hasThreadFenceSystem = p.arch.has3dGrid = 1;
  if (const GuestDevice* guest = guest_device()) guest->describe(p);
  return p;
}

bool device_attribute(const hipDeviceProp_t& p, hipDeviceAttribute_t attribute, int& value) {
  switch (attribute) {
    case hipDeviceAttributeAsyncEngineCount:
      value = p.asyncEngineCount;
      return true;
    case hipDeviceAttributeCanMapHostMemory:
      value = p.canMapHostMemory;
      return true;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      value = p.canUseHostPointerForRegisteredMem;
      return true;
    case hipDeviceAttributeClockRate:
      value = p.clockRate;
      return true;
    case hipDeviceAttributeConcurrentKernels:
      value = p.concurrentKernels;
      return true;
    case hipDeviceAttributeConcurrentManagedAccess:
      value = p.concurrentManagedAccess;
      return true;
    case hipDeviceAttributeDeviceOverlap:
      value = p.deviceOverlap;
      return true;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      value = p.directManagedMemAccessFromHost;
      return true;
    case hipDeviceAttributeGlobalL1CacheSupported:
      value = p.globalL1CacheSupported;
      return true;
    case hipDeviceAttributeLocalL1CacheSupported:
      value = p.localL1CacheSupported;
      return true;
    case hipDeviceAttributeHostNativeAtomicSupported:
      value = p.hostNativeAtomicSupported;
      return true;
    case hipDeviceAttributeIntegrated:
      value = p.integrated;
      return true;
    case hipDeviceAttributeL2CacheSize:
      value = p.l2CacheSize;
      return true;
    case hipDeviceAttributeComputeCapabilityMajor:
      value = p.major;
      return true;
    case hipDeviceAttributeComputeCapabilityMinor:
      value = p.minor;
      return true;
    case hipDeviceAttributeManagedMemory:
      value = p.managedMemory;
      return true;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      value = p.maxBlocksPerMultiProcessor;
      return true;
    case hipDeviceAttributeMaxBlockDimX:
      value = p.maxThreadsDim[0];
      return true;
    case hipDeviceAttributeMaxBlockDimY:
      value = p.maxThreadsDim[1];
      return true;
    case hipDeviceAttributeMaxBlockDimZ:
      value = p.maxThreadsDim[2];
      return true;
    case hipDeviceAttributeMaxGridDimX:
      value = p.maxGridSize[0];
      return true;
    case hipDeviceAttributeMaxGridDimY:
      value = p.maxGridSize[1];
      return true;
    case hipDeviceAttributeMaxGridDimZ:
      value = p.maxGridSize[2];
      return true;
    case hipDeviceAttributeMaxThreadsDim:
      value = p.maxThreadsDim[0];
      return true;
    case hipDeviceAttributeMaxThreadsPerBlock:
      value = p.maxThreadsPerBlock;
      return true;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      value = p.maxThreadsPerMultiProcessor;
      return true;
    case hipDeviceAttributeMaxPitch:
      value = clipped(p.memPitch);
      return true;
    case hipDeviceAttributeMemoryBusWidth:
      value = p.memoryBusWidth;
      return true;
    case hipDeviceAttributeMemoryClockRate:
      value = p.memoryClockRate;
      return true;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount:
      value = p.multiProcessorCount;
      return true;
    case hipDeviceAttributePageableMemoryAccess:
      value = p.pageableMemoryAccess;
      return true;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
      value = p.pageableMemoryAccessUsesHostPageTables;
      return true;
    case hipDeviceAttributePciBusId:
      value = p.pciBusID;
      return true;
    case hipDeviceAttributePciDeviceId:
      value = p.pciDeviceID;
      return true;
    case hipDeviceAttributeMaxRegistersPerBlock:
      value = p.regsPerBlock;
      return true;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      value = p.regsPerMultiprocessor;
      return true;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      value = clipped(p.sharedMemPerBlock);
      return true;
    case hipDeviceAttributeSharedMemPerBlockOptin:
      value = clipped(p.sharedMemPerBlockOptin);
      return true;
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      value = clipped(p.sharedMemPerMultiprocessor);
      return true;
    case hipDeviceAttributeStreamPrioritiesSupported:
      value = p.streamPrioritiesSupported;
      return true;
    case hipDeviceAttributeSurfaceAlignment:
      value = clipped(p.surfaceAlignment);
      return true;
    case hipDeviceAttributeTextureAlignment:
      value = clipped(p.textureAlignment);
      return true;
    case hipDeviceAttributeTexturePitchAlignment:
      value = clipped(p.texturePitchAlignment);
      return true;
    case hipDeviceAttributeTotalConstantMemory:
      value = clipped(p.totalConstMem);
      return true;
    case hipDeviceAttributeTotalGlobalMem:
      value = clipped(p.totalGlobalMem);
      return true;
    case hipDeviceAttributeUnifiedAddressing:
      value = p.unifiedAddressing;
      return true;
    case hipDeviceAttributeWarpSize:
      value = p.warpSize;
      return true;
    case hipDeviceAttributeMemoryPoolsSupported:
      value = p.memoryPoolsSupported;
      return true;
    case hipDeviceAttributeHostRegisterSupported:
      value = p.hostRegisterSupported;
      return true;
    case hipDeviceAttributeIsLargeBar:
      value = p.isLargeBar;
      return true;
    case hipDeviceAttributeFineGrainSupport:
      value = 1;
      return true;
    case hipDeviceAttributeClockInstructionRate:
    case hipDeviceAttributeWallClockRate:
      value = kTimerKilohertz;
      return true;
    default:
      break;
  }
  // Everything else that HIP names is something this device lacks.
  const bool named = (attribute >= hipDeviceAttributeCudaCompatibleBegin &&
                      attribute <= hipDeviceAttributeMemoryPoolSupportedHandleTypes) ||
                     (attribute >= hipDeviceAttributeAmdSpecificBegin && attribute <= hipDeviceAttributeWallClockRate);
  if (named) value = 0;
  return named;
}

}  // namespace hiphost
