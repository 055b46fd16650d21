// Parts of HIP that platform/host leaves out and that hip-tests' common headers name: arrays, modules, memory pools,
// symbols. No listed case depends on them; each call is refused.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

enum hipArray_Format {
  HIP_AD_FORMAT_UNSIGNED_INT8 = 0x01,
  HIP_AD_FORMAT_UNSIGNED_INT16 = 0x02,
  HIP_AD_FORMAT_UNSIGNED_INT32 = 0x03,
  HIP_AD_FORMAT_SIGNED_INT8 = 0x08,
  HIP_AD_FORMAT_SIGNED_INT16 = 0x09,
  HIP_AD_FORMAT_SIGNED_INT32 = 0x0a,
  HIP_AD_FORMAT_FLOAT = 0x20
};

enum hipChannelFormatKind {
  hipChannelFormatKindSigned = 0,
  hipChannelFormatKindUnsigned = 1,
  hipChannelFormatKindFloat = 2,
  hipChannelFormatKindNone = 3
};

struct hipChannelFormatDesc {
  int x, y, z, w;
  hipChannelFormatKind f;
};

struct HIP_ARRAY3D_DESCRIPTOR {
  std::size_t Width, Height, Depth;
  hipArray_Format Format;
  unsigned NumChannels, Flags;
};

struct textureReference;
using hipMipmappedArray_t = struct hipMipmappedArray*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipCtx_t = struct ihipCtx_t*;
using hipMemPool_t = struct ihipMemPoolHandle_t*;

#define hipArrayDefault 0x00

struct HIP_MEMCPY3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  std::size_t srcPitch, srcHeight;
  std::size_t dstXInBytes, dstY, dstZ, dstLOD;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  std::size_t dstPitch, dstHeight;
  std::size_t WidthInBytes, Height, Depth;
};

enum hipMemPoolAttr { hipMemPoolAttrReservedMemHigh = 6, hipMemPoolAttrUsedMemHigh = 8 };

#define HIP_SYMBOL(symbol) (&(symbol))

inline hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
template <class T>
hipChannelFormatDesc hipCreateChannelDesc() {
  return {8 * static_cast<int>(sizeof(T)), 0, 0, 0, hipChannelFormatKindSigned};
}

#define HIP_TESTS_UNSUPPORTED(function) \
  template <class... A>                 \
  hipError_t function(const A&...) {    \
    return hipErrorNotSupported;        \
  }

HIP_TESTS_UNSUPPORTED(hipArray3DCreate)
HIP_TESTS_UNSUPPORTED(hipArrayDestroy)
HIP_TESTS_UNSUPPORTED(hipMalloc3DArray)
HIP_TESTS_UNSUPPORTED(hipFreeArray)
HIP_TESTS_UNSUPPORTED(hipMallocMipmappedArray)
HIP_TESTS_UNSUPPORTED(hipGetMipmappedArrayLevel)
HIP_TESTS_UNSUPPORTED(hipFreeMipmappedArray)
HIP_TESTS_UNSUPPORTED(hipModuleUnload)
HIP_TESTS_UNSUPPORTED(hipDeviceGetDefaultMemPool)
HIP_TESTS_UNSUPPORTED(hipMemPoolCreate)
HIP_TESTS_UNSUPPORTED(hipMemPoolSetAttribute)
HIP_TESTS_UNSUPPORTED(hipMemPoolDestroy)
HIP_TESTS_UNSUPPORTED(hipDeviceGraphMemTrim)
HIP_TESTS_UNSUPPORTED(hipDrvMemcpy3D)
HIP_TESTS_UNSUPPORTED(hipDrvMemcpy3DAsync)
HIP_TESTS_UNSUPPORTED(hipDrvGraphAddMemcpyNode)
HIP_TESTS_UNSUPPORTED(hipDrvGraphMemcpyNodeGetParams)
HIP_TESTS_UNSUPPORTED(hipDrvGraphMemcpyNodeSetParams)
HIP_TESTS_UNSUPPORTED(hipMemcpyFromSymbol)
HIP_TESTS_UNSUPPORTED(hipGraphAddMemcpyNodeFromSymbol)
HIP_TESTS_UNSUPPORTED(hipGraphAddMemcpyNodeToSymbol)

#undef HIP_TESTS_UNSUPPORTED
