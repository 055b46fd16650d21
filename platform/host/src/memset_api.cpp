#include "api.hpp"
#include "capture.hpp"
#include "copy.hpp"

using namespace hiphost;

namespace {

enum class Waiting { kNo, kYes };

hipError_t set_memory(SetWork&& work, hipStream_t stream, Waiting waiting) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Stream* target = find_stream(rt, stream);
  if (target == nullptr) return hipErrorContextIsDestroyed;
  if (waiting == Waiting::kYes) {
    if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
    if (const hipError_t refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
  }
  // Real runtimes accept an eager set of nothing and refuse one in a capture.
  if (sets_nothing(work)) return target->capture ? hipErrorInvalidValue : hipSuccess;
  if (const hipError_t status = check_set(rt, work); status != hipSuccess) return status;
  Ref<Task> task;
  const hipError_t status = dispatch(rt, *target, work, &task);
  if (status != hipSuccess || waiting == Waiting::kNo) return status;
  const Device& device = target->device;
  lock.unlock();
  return wait_for(rt, {task}, device);
}

SetWork box_set(void* dst, size_t pitch, size_t slice, std::uint32_t value, std::uint32_t element_size, size_t width,
                size_t height = 1, size_t depth = 1) {
  SetWork work;
  work.dst = dst;
  work.pitch = pitch;
  work.slice = slice;
  work.value = value;
  work.element_size = element_size;
  work.width = width;
  work.height = height;
  work.depth = depth;
  return work;
}

SetWork row_set(void* dst, std::uint32_t value, std::uint32_t element_size, size_t count) {
  return box_set(dst, 0, 0, value, element_size, count);
}

std::uint32_t low_byte(int value) { return static_cast<std::uint32_t>(value) & 0xFFu; }

SetWork pitched_set(const hipPitchedPtr& box, int value, const hipExtent& extent) {
  return box_set(box.ptr, box.pitch, box.pitch * box.ysize, low_byte(value), 1, extent.width, extent.height,
                 extent.depth);
}

}  // namespace

extern "C" {

hipError_t hipMemset(void* dst, int value, size_t sizeBytes) {
  FMHAX_HIP_API({ return set_memory(row_set(dst, low_byte(value), 1, sizeBytes), nullptr, Waiting::kYes); });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes, hipStream_t stream) {
  FMHAX_HIP_API({ return set_memory(row_set(dst, low_byte(value), 1, sizeBytes), stream, Waiting::kNo); });
}

hipError_t hipMemsetD8(hipDeviceptr_t dest, unsigned char value, size_t count) {
  FMHAX_HIP_API({ return set_memory(row_set(dest, value, 1, count), nullptr, Waiting::kYes); });
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dest, unsigned char value, size_t count, hipStream_t stream) {
  FMHAX_HIP_API({ return set_memory(row_set(dest, value, 1, count), stream, Waiting::kNo); });
}

hipError_t hipMemsetD16(hipDeviceptr_t dest, unsigned short value, size_t count) {
  FMHAX_HIP_API({ return set_memory(row_set(dest, value, 2, count), nullptr, Waiting::kYes); });
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dest, unsigned short value, size_t count, hipStream_t stream) {
  FMHAX_HIP_API({ return set_memory(row_set(dest, value, 2, count), stream, Waiting::kNo); });
}

hipError_t hipMemsetD32(hipDeviceptr_t dest, int value, size_t count) {
  FMHAX_HIP_API(
      { return set_memory(row_set(dest, static_cast<std::uint32_t>(value), 4, count), nullptr, Waiting::kYes); });
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  FMHAX_HIP_API(
      { return set_memory(row_set(dst, static_cast<std::uint32_t>(value), 4, count), stream, Waiting::kNo); });
}

hipError_t hipMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  FMHAX_HIP_API(
      { return set_memory(box_set(dst, pitch, 0, low_byte(value), 1, width, height), nullptr, Waiting::kYes); });
}

hipError_t hipMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
  FMHAX_HIP_API(
      { return set_memory(box_set(dst, pitch, 0, low_byte(value), 1, width, height), stream, Waiting::kNo); });
}

hipError_t hipMemset3D(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent) {
  FMHAX_HIP_API({ return set_memory(pitched_set(pitchedDevPtr, value, extent), nullptr, Waiting::kYes); });
}

hipError_t hipMemset3DAsync(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent, hipStream_t stream) {
  FMHAX_HIP_API({ return set_memory(pitched_set(pitchedDevPtr, value, extent), stream, Waiting::kNo); });
}

}  // extern "C"
