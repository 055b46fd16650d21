// Kernels for the CPU runtime: a kernel is a plain function `void f(P...)` that the runtime calls once for each thread
// of each block. hiphost::kernel(f) gives the handle that hipLaunchKernel and hipKernelNodeParams::func take.
//
// Blocks are handed out in increasing order (x fastest) to the threads of a pool, so a block may wait for a
// lower-numbered block of the same launch, never for a higher one. The threads of one block run one after another on
// the same pool thread; the kernels of this library use blocks of one thread and do a whole tile in each.
#pragma once

#include <hip/hip_runtime_api.h>
#include <hiphost/ranges.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

// Makes fn launchable: nargs parameters of the given sizes, called through thunk(fn, args). Repeating it is cheap; the
// first registration of a function wins.
extern "C" void hiphost_register_kernel(const void* fn, size_t nargs, const size_t* sizes,
                                        void (*thunk)(const void* fn, void** args));

// Memory of the launch's sharedMemBytes, aligned to 64 bytes, private to the calling block, not initialised.
void* hiphost_dynamic_shared();
size_t hiphost_dynamic_shared_bytes();
// A barrier of the block. Threads of a block run one after another, so only blocks of one thread can honour it: in
// larger blocks it ends the launch with hipErrorLaunchFailure.
void hiphost_syncthreads();

namespace hiphost {

struct Index3 {
  std::uint32_t x, y, z;
};

// Where the calling thread is within the launch that it executes. Meaningless outside of a kernel.
struct KernelPosition {
  Index3 block, grid_size, thread, block_size;
};

inline constinit thread_local KernelPosition kernel_position{};

inline const Index3& block_idx() noexcept { return kernel_position.block; }
inline const Index3& grid_dim() noexcept { return kernel_position.grid_size; }
inline const Index3& thread_idx() noexcept { return kernel_position.thread; }
inline const Index3& block_dim() noexcept { return kernel_position.block_size; }
inline void* dynamic_shared() { return ::hiphost_dynamic_shared(); }

namespace detail {

template <class... P, std::size_t... I>
void call_kernel(const void* fn, [[maybe_unused]] void** args, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(P...)>(reinterpret_cast<std::uintptr_t>(fn))(
      *static_cast<std::remove_cvref_t<P>*>(args[I])...);
}

}  // namespace detail

// Registers f (once, from any thread) and returns its launch handle.
template <class... P>
void* kernel(void (*f)(P...)) {
  static_assert((std::is_trivially_copyable_v<std::remove_cvref_t<P>> && ...),
                "a kernel's arguments are copied bytewise at launch");
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its arguments by value");
  static constexpr std::size_t kSizes[] = {sizeof(P)..., 0};
  void* handle = reinterpret_cast<void*>(f);
  hiphost_register_kernel(handle, sizeof...(P), kSizes, [](const void* fn, void** args) {
    detail::call_kernel<P...>(fn, args, std::index_sequence_for<P...>{});
  });
  return handle;
}

// The same, and declares what the kernel touches; see hiphost/ranges.hpp.
template <class... P>
void* kernel(void (*f)(P...), const KernelDeclaration& declaration) {
  void* handle = kernel(f);
  declare_kernel(handle, declaration);
  return handle;
}

// Converts the arguments to the kernel's parameter types and launches it.
template <class... P, class... A>
hipError_t launch(void (*f)(P...), dim3 grid, dim3 block, std::size_t shared_bytes, hipStream_t stream, A&&... args) {
  std::tuple<std::remove_cvref_t<P>...> values(static_cast<std::remove_cvref_t<P>>(std::forward<A>(args))...);
  void* pointers[sizeof...(P) + 1] = {};
  std::apply(
      [&](auto&... value) {
        [[maybe_unused]] std::size_t i = 0;
        ((pointers[i++] = &value), ...);
      },
      values);
  return hipLaunchKernel(kernel(f), grid, block, pointers, shared_bytes, stream);
}

}  // namespace hiphost
