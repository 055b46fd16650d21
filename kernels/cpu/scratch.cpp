#include "scratch.hpp"

#include <vector>

#include "tile_ops.hpp"

namespace fmhax::cpu {
namespace {

constexpr std::size_t kFloatsOfLine = 16;

struct alignas(64) CacheLine {
  float values[kFloatsOfLine];
};

}  // namespace

float* scratch_memory() {
  static_assert(kAllScratchFloats % kFloatsOfLine == 0);
  thread_local std::vector<CacheLine> memory(kAllScratchFloats / kFloatsOfLine);
  return reinterpret_cast<float*>(memory.data());
}

}  // namespace fmhax::cpu
