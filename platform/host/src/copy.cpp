#include "copy.hpp"

namespace hiphost {
namespace {

// Bytes from the first to the last one that a box touches; false on overflow.
bool box_bytes(std::size_t width, std::size_t height, std::size_t depth, std::size_t pitch, std::size_t slice,
               std::size_t& out) {
  std::size_t rows = 0, planes = 0;
  return !__builtin_mul_overflow(height - 1, pitch, &rows) && !__builtin_mul_overflow(depth - 1, slice, &planes) &&
         !__builtin_add_overflow(width, rows, &out) && !__builtin_add_overflow(out, planes, &out);
}

// What lies at the pointer; an error if `bytes` leave its allocation.
hipError_t place_of(const Runtime& rt, const void* pointer, std::size_t bytes, Place& out) {
  if (pointer == nullptr) return hipErrorInvalidValue;
  const auto range = rt.memory.find(pointer);
  if (!range) {
    out = Place::kPageable;
    return hipSuccess;
  }
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(pointer) - range->base;
  if (range->freeing || bytes > range->size - offset) return hipErrorInvalidValue;
  switch (range->kind) {
    case MemoryKind::kPinned:
    case MemoryKind::kRegistered:
      out = Place::kPinned;
      break;
    case MemoryKind::kManaged:
      out = Place::kManaged;
      break;
    case MemoryKind::kDevice:
      out = Place::kDevice;
      break;
  }
  return hipSuccess;
}

// Pinned and managed memory can stand for either side.
bool fits(Place place, bool device_side) { return device_side ? place != Place::kPageable : place != Place::kDevice; }

}  // namespace

CopyWork linear_copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  CopyWork work;
  work.dst = dst;
  work.src = src;
  work.width = work.dst_pitch = work.src_pitch = work.dst_slice = work.src_slice = bytes;
  work.kind = kind;
  return work;
}

hipError_t copy_from_params(const hipMemcpy3DParms* params, CopyWork& out) {
  if (params == nullptr) return hipErrorInvalidValue;
  if (params->srcArray != nullptr || params->dstArray != nullptr) return hipErrorNotSupported;
  if (params->srcPtr.ptr == nullptr || params->dstPtr.ptr == nullptr) return hipErrorInvalidValue;
  const auto start = [](const hipPitchedPtr& box, const hipPos& position) {
    return static_cast<std::byte*>(box.ptr) + (position.z * box.ysize + position.y) * box.pitch + position.x;
  };
  out.dst = start(params->dstPtr, params->dstPos);
  out.src = start(params->srcPtr, params->srcPos);
  out.dst_pitch = params->dstPtr.pitch;
  out.src_pitch = params->srcPtr.pitch;
  out.dst_slice = params->dstPtr.pitch * params->dstPtr.ysize;
  out.src_slice = params->srcPtr.pitch * params->srcPtr.ysize;
  out.width = params->extent.width;
  out.height = params->extent.height;
  out.depth = params->extent.depth;
  out.kind = params->kind;
  return hipSuccess;
}

hipMemcpy3DParms params_from_copy(const CopyWork& work) {
  hipMemcpy3DParms params{};
  const auto rows = [](std::size_t slice, std::size_t pitch) { return pitch == 0 ? 0 : slice / pitch; };
  params.dstPtr = make_hipPitchedPtr(work.dst, work.dst_pitch, work.width, rows(work.dst_slice, work.dst_pitch));
  params.srcPtr =
      make_hipPitchedPtr(const_cast<void*>(work.src), work.src_pitch, work.width, rows(work.src_slice, work.src_pitch));
  params.extent = make_hipExtent(work.width, work.height, work.depth);
  params.kind = work.kind;
  return params;
}

hipError_t check_copy(const Runtime& rt, const CopyWork& work, CopyPlaces* places) {
  const bool known_kind =
      (work.kind >= hipMemcpyHostToHost && work.kind <= hipMemcpyDefault) || work.kind == hipMemcpyDeviceToDeviceNoCU;
  if (!known_kind) return hipErrorInvalidMemcpyDirection;
  if (work.height > 1 || work.depth > 1) {
    if (work.width > work.dst_pitch || work.width > work.src_pitch) return hipErrorInvalidPitchValue;
  }
  std::size_t dst_bytes = 0, src_bytes = 0;
  if (!box_bytes(work.width, work.height, work.depth, work.dst_pitch, work.dst_slice, dst_bytes) ||
      !box_bytes(work.width, work.height, work.depth, work.src_pitch, work.src_slice, src_bytes)) {
    return hipErrorInvalidValue;
  }
  CopyPlaces found;
  if (const hipError_t status = place_of(rt, work.dst, dst_bytes, found.dst); status != hipSuccess) return status;
  if (const hipError_t status = place_of(rt, work.src, src_bytes, found.src); status != hipSuccess) return status;
  if (places != nullptr) *places = found;
  if (work.kind == hipMemcpyDefault) return hipSuccess;
  const bool from_device = work.kind != hipMemcpyHostToHost && work.kind != hipMemcpyHostToDevice;
  const bool to_device = work.kind != hipMemcpyHostToHost && work.kind != hipMemcpyDeviceToHost;
  return fits(found.src, from_device) && fits(found.dst, to_device) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t check_set(const Runtime& rt, const SetWork& work) {
  const std::uint32_t size = work.element_size;
  if (size != 1 && size != 2 && size != 4) return hipErrorInvalidValue;
  if (reinterpret_cast<std::uintptr_t>(work.dst) % size != 0) return hipErrorInvalidValue;
  std::size_t row = 0, bytes = 0;
  if (__builtin_mul_overflow(work.width, size, &row)) return hipErrorInvalidValue;
  if ((work.height > 1 || work.depth > 1) && work.pitch < row) return hipErrorInvalidValue;
  if (!box_bytes(row, work.height, work.depth, work.pitch, work.slice, bytes)) return hipErrorInvalidValue;
  Place place{};
  if (const hipError_t status = place_of(rt, work.dst, bytes, place); status != hipSuccess) return status;
  return place == Place::kPageable ? hipErrorInvalidValue : hipSuccess;
}

hipMemcpyKind copy_direction(const Runtime& rt, const CopyWork& work) {
  if (work.kind != hipMemcpyDefault) return work.kind;
  CopyPlaces places;
  if (check_copy(rt, work, &places) != hipSuccess) return hipMemcpyDefault;
  if (places.src == Place::kDevice) {
    return places.dst == Place::kDevice ? hipMemcpyDeviceToDevice : hipMemcpyDeviceToHost;
  }
  return places.dst == Place::kDevice ? hipMemcpyHostToDevice : hipMemcpyHostToHost;
}

std::unique_ptr<std::byte[]> stage_source(CopyWork& work) {
  auto staging = std::make_unique_for_overwrite<std::byte[]>(work.width * work.height * work.depth);
  std::byte* out = staging.get();
  for (std::size_t z = 0; z < work.depth; ++z) {
    for (std::size_t y = 0; y < work.height; ++y) {
      const auto* row = static_cast<const std::byte*>(work.src) + z * work.src_slice + y * work.src_pitch;
      std::memcpy(out, row, work.width);
      out += work.width;
    }
  }
  work.src = staging.get();
  work.src_pitch = work.width;
  work.src_slice = work.width * work.height;
  return staging;
}

}  // namespace hiphost
