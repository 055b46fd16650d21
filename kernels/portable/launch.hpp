/// @file How the provider's host side writes down a launch, and what it asks of tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::portable {

/// Blocks that keep every multiprocessor busy and even out what blocks differ in; kernels loop over the rest.
inline constexpr std::int64_t kBlocksPerMultiprocessor = 32;

inline std::uint32_t grid_size(std::int64_t jobs, const DeviceTraits& traits) {
  const std::int64_t most = kBlocksPerMultiprocessor * std::max(traits.multiprocessors, 1);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(jobs, 0, most));
}

/// A launch of `function(params)`; returns true, as form functions do.
inline bool set_launch(KernelLaunch& launch, const void* function, std::uint32_t blocks, std::uint32_t threads,
                       const KernelParams& params) {
  static_assert(sizeof(KernelParams) <= KernelLaunch::kMaxArgumentBytes);
  launch = {};
  launch.function = function;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.argument_count = 1;
  std::memcpy(launch.arguments, &params, sizeof(params));
  return true;
}

/// Appends an argument behind those that the launch has.
template <typename T>
void add_argument(KernelLaunch& launch, std::size_t end, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t position = (end + alignof(T) - 1) / alignof(T) * alignof(T);
  launch.argument_offset[launch.argument_count++] = static_cast<std::uint32_t>(position);
  std::memcpy(launch.arguments + position, &value, sizeof(value));
}

/// Whether every row of the tensor begins at a multiple of `bytes`.
inline bool has_aligned_rows(const TensorRef& tensor, DataType dtype, std::int64_t bytes = 16) {
  const std::int64_t elements = bytes / element_size(dtype);
  return reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         tensor.stride_batch % elements == 0 && tensor.stride_seqlen % elements == 0 &&
         tensor.stride_nhead % elements == 0;
}

/// form(type, hdim), both integral_constants: the problem's data type, and 64, 128 or 256, which both head dimensions
/// fit.
template <typename Form>
bool form_by_type_and_hdim(const Problem& p, const Form& form) {
  const auto by_hdim = [&](auto type) {
    const std::int64_t hdim = std::max(p.hdim_q, p.hdim_v);
    if (hdim <= 64) return form(type, std::integral_constant<int, 64>{});
    return hdim <= 128 ? form(type, std::integral_constant<int, 128>{})
                       : form(type, std::integral_constant<int, 256>{});
  };
  return p.dtype == DataType::fp16 ? by_hdim(std::integral_constant<DataType, DataType::fp16>{})
                                   : by_hdim(std::integral_constant<DataType, DataType::bf16>{});
}

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace fmhax::portable
