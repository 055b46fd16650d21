/// @file How a provider describes its kernels to the executor: plain data and function pointers, so that
/// a provider can come from outside and the executor never includes its headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/problem.hpp"
#include "fmhax/contract/workspace.hpp"

namespace fmhax {

/// What a kernel does in a call.
enum class KernelRole : std::int32_t {
  forward = 0,  ///< o and lse from q, k, v (optional; for samples and tests)
  /// d = rowsum(dout * o), minus dlse; may run before the metadata exist, so it does not read them. Kernels that write
  /// dq directly need it with dbias and sink alone.
  dot_do_o = 1,
  /// The gradients; writes every row of dk and dv, of dq when it writes dq directly, and the random values.
  dq_dk_dv = 2,
  convert_dq = 3,  ///< sums the splits in order, scales, casts; writes every row of dq
  /// Packs the metadata from device memory, zeroes dq_acc where params.zero_dq_acc says so, and reports the lengths'
  /// status: what pack_workspace_host() does, bit for bit (optional; for MetadataPath::device).
  prepare = 4,
  /// Writes all of dbias, zero where no visible pair of a row and a key contributes; after dot_do_o and the metadata,
  /// beside dq_dk_dv. Sums run in an order that depends on the lengths alone. NaN in a refused call, which kernels that
  /// write dq directly find out by checking the lengths, the others by nsplits.
  dbias = 5,
  /// dsink[h] = -sum over sequences and rows of exp(sink[h] - lse) * d; otherwise as dbias.
  dsink = 6,
  /// What prepare and dot_do_o do, in one launch, for calls that want both (optional; for entries that have both). Also
  /// for calls of batch mode on the host path, whose metadata are one constant; params.status is null in these.
  prepare_and_dot = 7
};
inline constexpr KernelRole kKernelRoles[] = {KernelRole::forward,    KernelRole::dot_do_o,       KernelRole::dq_dk_dv,
                                              KernelRole::convert_dq, KernelRole::prepare,        KernelRole::dbias,
                                              KernelRole::dsink,      KernelRole::prepare_and_dot};

/// The device that a plan is made for.
struct DeviceTraits {
  std::int32_t device = 0;
  std::int32_t multiprocessors = 0;          ///< on the host platform: threads of the block pool
  std::int64_t shared_memory_per_block = 0;  ///< the most that a function may be allowed
  char arch[64] = {};                        ///< gcnArchName on AMD, "sm_90" on NVIDIA, "host" on the host platform
};

/// One kernel launch as a value: it can be played on a stream or added to a graph. Arguments lie inline.
struct KernelLaunch {
  static constexpr std::size_t kMaxArguments = 8;
  static constexpr std::size_t kMaxArgumentBytes = 1024;

  const void* function = nullptr;     ///< what hipLaunchKernel takes
  std::uint32_t grid[3] = {0, 1, 1};  ///< grid[0] == 0: nothing to launch
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  std::uint32_t argument_count = 0;
  std::uint32_t argument_offset[kMaxArguments] = {};
  alignas(16) unsigned char arguments[kMaxArgumentBytes] = {};
};

/// One selectable set of kernels. All functions are pure and thread-safe and must not throw; none of
/// them calls the HIP API except to name a kernel function.
struct KernelEntry {
  static constexpr std::uint32_t kVersion = 2;

  std::uint32_t version = kVersion;
  const char* name = nullptr;  ///< unique, e.g. "cpu-avx512-bf16-64x128"; spells out the configuration
  /// Null when this entry can run the problem on the device, else the reason as a static string.
  const char* (*unsupported_reason)(const Problem&, const DeviceTraits&) = nullptr;
  /// Preference among entries that can run a problem; the highest wins, the first registered breaks ties.
  std::int32_t (*rank)(const Problem&, const DeviceTraits&) = nullptr;
  WorkspaceSpec (*workspace_spec)(const Problem&, const DeviceTraits&) = nullptr;
  /// Fills `launch` for one role; false when this entry has no such kernel. A plan asks for every role twice, with its
  /// problem and null for all that calls bring, to load the functions and to allow them their shared memory: once with
  /// strides of 0 and once with stride_seqlen 1, as of rows that no vector fits. Later launches of the role name one of
  /// those functions, and ask for no more than that or what every function may use.
  bool (*form_launch)(KernelRole, const DeviceTraits&, const KernelParams&, KernelLaunch&) = nullptr;
};

}  // namespace fmhax
