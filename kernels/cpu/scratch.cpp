#include "scratch.hpp"

#include <memory>
#include <new>

#include "tile_ops.hpp"

namespace fmhax::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Release {
  void operator()(float* memory) const noexcept { ::operator delete(memory, kAlignment); }
};

}  // namespace

float* scratch_memory() {
  thread_local const std::unique_ptr<float, Release> memory(
      static_cast<float*>(::operator new(kScratchFloats * sizeof(float), kAlignment)));
  return memory.get();
}

}  // namespace fmhax::cpu
