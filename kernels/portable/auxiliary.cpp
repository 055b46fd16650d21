#include "auxiliary.hpp"

namespace fmhax::portable {

bool form_auxiliary(KernelRole role, const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                    KernelLaunch& launch) {
  switch (role) {
    case KernelRole::dot_do_o:
      return !spec.writes_dq_directly && form_dot_do_o(traits, params, launch);
    case KernelRole::convert_dq:
      return !spec.writes_dq_directly && form_convert_dq(traits, params, launch);
    case KernelRole::prepare:
      return !spec.writes_dq_directly && form_prepare(spec, traits, params, launch);
    case KernelRole::forward:
    case KernelRole::dq_dk_dv:
      break;
  }
  return false;
}

}  // namespace fmhax::portable
