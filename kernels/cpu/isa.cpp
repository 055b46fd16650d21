#include "isa.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace fmhax::cpu {

namespace generic {
extern const TileOps kFp32Ops, kFp16Ops, kBf16Ops;
}
#ifdef FMHAX_CPU_X86_64
namespace avx2 {
extern const TileOps kFp32Ops, kFp16Ops, kBf16Ops;
}
namespace avx512 {
extern const TileOps kFp32Ops, kFp16Ops, kBf16Ops;
}
#endif

namespace {

Isa isa_cap() noexcept {
  // Nothing in the library sets environment variables, and this runs once.
  const char* text = std::getenv("FMHAX_CPU_ISA");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view cap = text == nullptr ? "" : text;
  if (cap == "generic") return Isa::generic;
  if (cap == "avx2") return Isa::avx2;
  return Isa::avx512;
}

}  // namespace

Isa detected_isa() noexcept {
#ifdef FMHAX_CPU_X86_64
  // Every processor with AVX2, FMA and BMI2 has the rest of x86-64-v3, which not every compiler can ask for.
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  if (has_avx512) return Isa::avx512;
  if (has_avx2) return Isa::avx2;
#endif
  return Isa::generic;
}

Isa allowed_isa() noexcept {
  static const Isa isa = std::min(detected_isa(), isa_cap());
  return isa;
}

const TileOps& tile_ops(Isa isa, DataType dtype) noexcept {
#ifdef FMHAX_CPU_X86_64
  static constexpr const TileOps* kOps[3][3] = {
      {&generic::kFp32Ops, &generic::kFp16Ops, &generic::kBf16Ops},
      {&avx2::kFp32Ops, &avx2::kFp16Ops, &avx2::kBf16Ops},
      {&avx512::kFp32Ops, &avx512::kFp16Ops, &avx512::kBf16Ops},
  };
#else
  static constexpr const TileOps* kOps[1][3] = {{&generic::kFp32Ops, &generic::kFp16Ops, &generic::kBf16Ops}};
#endif
  return *kOps[static_cast<std::size_t>(isa)][static_cast<std::size_t>(dtype)];
}

}  // namespace fmhax::cpu
