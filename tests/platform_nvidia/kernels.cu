#include <hip/hip_runtime.h>

#include "kernels.hpp"

namespace test {
namespace {

__global__ void add(std::uint32_t* words, std::uint32_t count, std::uint32_t amount) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += amount;
}

}  // namespace

void* add_kernel() { return reinterpret_cast<void*>(&add); }

}  // namespace test
