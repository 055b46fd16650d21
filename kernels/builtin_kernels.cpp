#include <cstddef>

#include "fmhax/contract/kernel_entry.hpp"

#ifdef FMHAX_HAS_CPU_PROVIDER
#include "cpu/entries.hpp"
#endif
#ifdef FMHAX_HAS_PORTABLE_PROVIDER
#include "portable/entries.hpp"
#endif

/// The library's own kernels, found by the executor's registry through this name.
extern "C" const fmhax::KernelEntry* fmhax_builtin_kernels(std::size_t* count) {
#ifdef FMHAX_HAS_CPU_PROVIDER
  const auto entries = fmhax::cpu::entries();
  *count = entries.size();
  return entries.data();
#elif defined(FMHAX_HAS_PORTABLE_PROVIDER)
  const auto entries = fmhax::portable::entries();
  *count = entries.size();
  return entries.data();
#else
  *count = 0;
  return nullptr;
#endif
}
