/// @file Plans a problem with ROCm's HIP runtime and no kernels. Exit status: 0 with a GPU (where the plan is
/// refused because no kernel is registered), 2 with one clear message where HIP finds none, 1 otherwise.
#include <cstdio>

#include "fmhax/fmhax.hpp"

namespace {

fmhax::Problem small_problem() {
  fmhax::Problem p;
  p.batch = 1;
  p.nhead_q = p.nhead_k = 1;
  p.hdim_q = p.hdim_v = 64;
  p.max_seqlen_q = p.max_seqlen_k = 64;
  return p;
}

}  // namespace

int main() {
  try {
    const fmhax::Executor executor(small_problem());
    std::printf("planned with %s\n", executor.kernel_choice().entry().name);
    return 1;  // there is no kernel that could have been planned with
  } catch (const fmhax::Error& e) {
    if (e.code() == fmhax::ErrorCode::unsupported) {
      std::printf("a GPU is there; as expected of a build without kernels: %s\n", e.what());
      return 0;
    }
    if (e.code() == fmhax::ErrorCode::hip) {
      std::fprintf(stderr,
                   "%s: HIP finds no usable AMD GPU. Check that one is installed, that the amdgpu driver is loaded and "
                   "that you may open /dev/kfd (groups video, render); to run on the CPU, build with "
                   "FMHAX_PLATFORM=host.\n",
                   e.what());
      return 2;
    }
    std::fprintf(stderr, "%s: %s\n", to_string(e.code()), e.what());
    return 1;
  }
}
