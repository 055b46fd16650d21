#include "api.hpp"
#include "capture.hpp"
#include "copy.hpp"

using namespace hiphost;

namespace {

hipError_t copy_async(const CopyWork& work, hipStream_t stream) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Stream* target = find_stream(rt, stream);
  if (target == nullptr) return hipErrorContextIsDestroyed;
  // As with sets, an eager copy of nothing is accepted, and one in a capture isn't.
  if (moves_nothing(work)) return target->capture ? hipErrorInvalidValue : hipSuccess;
  CopyPlaces places;
  if (const hipError_t status = check_copy(rt, work, &places); status != hipSuccess) return status;
  if (target->capture) return dispatch(rt, *target, CopyWork(work));

  const bool must_wait = places.dst == Place::kPageable;
  std::unique_ptr<std::byte[]> staging;
  CopyWork staged = work;
  if (places.src == Place::kPageable && !must_wait) {
    // Not under the lock, which the length of a copy must not hold up; so the stream is looked up again.
    lock.unlock();
    staging = stage_source(staged);
    lock.lock();
    target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (target->capture) return dispatch(rt, *target, CopyWork(work));
  }
  Ref<Task> task;
  const hipError_t status = dispatch(rt, *target, staged, &task, std::move(staging));
  if (status != hipSuccess || !must_wait) return status;
  const Device& device = target->device;
  lock.unlock();
  return wait_for(rt, {task}, device);
}

hipError_t copy_and_wait(const CopyWork& work, hipStream_t stream) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Stream* target = find_stream(rt, stream);
  if (target == nullptr) return hipErrorContextIsDestroyed;
  if (const hipError_t refused = refuse_while_capturing(*target); refused != hipSuccess) return refused;
  if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
  if (const hipError_t refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
  if (moves_nothing(work)) return hipSuccess;
  if (const hipError_t status = check_copy(rt, work); status != hipSuccess) return status;
  Ref<Task> task;
  if (const hipError_t status = dispatch(rt, *target, CopyWork(work), &task); status != hipSuccess) return status;
  const Device& device = target->device;
  lock.unlock();
  return wait_for(rt, {task}, device);
}

CopyWork plane_copy(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                    hipMemcpyKind kind) {
  CopyWork work = linear_copy(dst, src, width, kind);
  work.dst_pitch = dpitch;
  work.src_pitch = spitch;
  work.height = height;
  return work;
}

bool valid_devices(int first, int second) {
  const int count = static_cast<int>(runtime().devices.size());
  return first >= 0 && first < count && second >= 0 && second < count;
}

}  // namespace

extern "C" {

hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_async(linear_copy(dst, src, sizeBytes, kind), stream); });
}

hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind) {
  FMHAX_HIP_API({ return copy_and_wait(linear_copy(dst, src, sizeBytes, kind), nullptr); });
}

hipError_t hipMemcpyWithStream(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_and_wait(linear_copy(dst, src, sizeBytes, kind), stream); });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, size_t sizeBytes) {
  FMHAX_HIP_API({ return copy_and_wait(linear_copy(dst, src, sizeBytes, hipMemcpyHostToDevice), nullptr); });
}

hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, size_t sizeBytes) {
  FMHAX_HIP_API({ return copy_and_wait(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToHost), nullptr); });
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes) {
  FMHAX_HIP_API({ return copy_and_wait(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToDevice), nullptr); });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void* src, size_t sizeBytes, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_async(linear_copy(dst, src, sizeBytes, hipMemcpyHostToDevice), stream); });
}

hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_async(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToHost), stream); });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_async(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToDevice), stream); });
}

hipError_t hipMemcpyPeer(void* dst, int dstDeviceId, const void* src, int srcDeviceId, size_t sizeBytes) {
  FMHAX_HIP_API({
    if (!valid_devices(dstDeviceId, srcDeviceId)) return hipErrorInvalidDevice;
    return copy_and_wait(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToDevice), nullptr);
  });
}

hipError_t hipMemcpyPeerAsync(void* dst, int dstDeviceId, const void* src, int srcDevice, size_t sizeBytes,
                              hipStream_t stream) {
  FMHAX_HIP_API({
    if (!valid_devices(dstDeviceId, srcDevice)) return hipErrorInvalidDevice;
    return copy_async(linear_copy(dst, src, sizeBytes, hipMemcpyDeviceToDevice), stream);
  });
}

hipError_t hipMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       hipMemcpyKind kind) {
  FMHAX_HIP_API({ return copy_and_wait(plane_copy(dst, dpitch, src, spitch, width, height, kind), nullptr); });
}

hipError_t hipMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            hipMemcpyKind kind, hipStream_t stream) {
  FMHAX_HIP_API({ return copy_async(plane_copy(dst, dpitch, src, spitch, width, height, kind), stream); });
}

hipError_t hipMemcpy3D(const struct hipMemcpy3DParms* p) {
  FMHAX_HIP_API({
    CopyWork work;
    if (const hipError_t status = copy_from_params(p, work); status != hipSuccess) return status;
    return copy_and_wait(work, nullptr);
  });
}

hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms* p, hipStream_t stream) {
  FMHAX_HIP_API({
    CopyWork work;
    if (const hipError_t status = copy_from_params(p, work); status != hipSuccess) return status;
    return copy_async(work, stream);
  });
}

}  // extern "C"
