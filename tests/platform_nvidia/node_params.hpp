/// @file Parameters of nodes as executor/node_graph.cpp forms them.
#pragma once

#include <hip/hip_runtime.h>

#include "kernels.hpp"

namespace test {

inline hipMemsetParams set_params(std::uint32_t* words, std::uint32_t value, std::size_t count) {
  hipMemsetParams params{};
  params.dst = words;
  params.elementSize = sizeof(std::uint32_t);
  params.width = count;
  params.height = 1;
  params.value = value;
  return params;
}

/// One thread for each of `count` words; refers to the arguments.
inline hipKernelNodeParams kernel_params(AddArguments& arguments, std::uint32_t count) {
  constexpr std::uint32_t kBlock = 128;
  hipKernelNodeParams params{};
  params.func = add_kernel();
  params.gridDim = dim3((count + kBlock - 1) / kBlock);
  params.blockDim = dim3(kBlock);
  params.kernelParams = arguments.pointers;
  return params;
}

}  // namespace test
