#include "auxiliary.hpp"

namespace fmhax::portable {

bool form_auxiliary(KernelRole role, const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                    KernelLaunch& launch) {
  switch (role) {
    case KernelRole::dot_do_o:
      return !spec.writes_dq_directly && form_dot_do_o(traits, params, launch);
    case KernelRole::forward:
    case KernelRole::convert_dq:
    case KernelRole::prepare:
    case KernelRole::dq_dk_dv:
      break;
  }
  return false;
}

}  // namespace fmhax::portable
