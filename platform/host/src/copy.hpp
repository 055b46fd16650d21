// Checks of copies and sets against what each pointer is.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>

#include "runtime.hpp"
#include "work.hpp"

namespace hiphost {

enum class Place { kPageable, kPinned, kManaged, kDevice };

struct CopyPlaces {
  Place src = Place::kPageable;
  Place dst = Place::kPageable;
};

CopyWork linear_copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind);
// Arrays are hipErrorNotSupported.
hipError_t copy_from_params(const hipMemcpy3DParms* params, CopyWork& out);
hipMemcpy3DParms params_from_copy(const CopyWork& work);

inline bool moves_nothing(const CopyWork& work) { return work.width == 0 || work.height == 0 || work.depth == 0; }
inline bool sets_nothing(const SetWork& work) { return work.width == 0 || work.height == 0 || work.depth == 0; }

// Pointers, extents within their allocations, and the direction; not for copies that move nothing.
hipError_t check_copy(const Runtime& rt, const CopyWork& work, CopyPlaces* places = nullptr);
hipError_t check_set(const Runtime& rt, const SetWork& work);

// The direction of a checked copy, hipMemcpyDefault resolved.
hipMemcpyKind copy_direction(const Runtime& rt, const CopyWork& work);

// Copies the source into memory of its own and makes `work` read that.
std::unique_ptr<std::byte[]> stage_source(CopyWork& work);

}  // namespace hiphost
