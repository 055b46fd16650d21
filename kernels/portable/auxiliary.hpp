/// @file Host side of the kernels around dq_dk_dv: each function fills the launch of one role. None depends on the
/// tile configuration; what they need of an entry is its WorkspaceSpec.
#pragma once

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::portable {

/// For 16-bit types and every shape and layout that the contract allows; tensors whose rows aren't aligned to 16 bytes
/// get kernels that load element by element. All are pure and thread-safe.
bool form_dot_do_o(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);
bool form_convert_dq(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);
bool form_prepare(const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                  KernelLaunch& launch);
bool form_prepare_and_dot(const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                          KernelLaunch& launch);
bool form_forward(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);
bool form_dbias(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);
bool form_dsink(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);

/// The role's launch for an entry with this spec; false for dq_dk_dv, which is the entry's own, and for roles that an
/// entry which writes dq directly doesn't have.
bool form_auxiliary(KernelRole role, const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                    KernelLaunch& launch);

}  // namespace fmhax::portable
