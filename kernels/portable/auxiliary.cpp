#include "auxiliary.hpp"

namespace fmhax::portable {

bool form_auxiliary(KernelRole role, const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                    KernelLaunch& launch) {
  const Problem& p = params.problem;
  switch (role) {
    case KernelRole::dot_do_o:
      return (!spec.writes_dq_directly || p.has_dbias || p.has_sink) && form_dot_do_o(traits, params, launch);
    case KernelRole::convert_dq:
      return !spec.writes_dq_directly && form_convert_dq(traits, params, launch);
    case KernelRole::prepare:
      return !spec.writes_dq_directly && form_prepare(spec, traits, params, launch);
    case KernelRole::prepare_and_dot:
      return !spec.writes_dq_directly && form_prepare_and_dot(spec, traits, params, launch);
    case KernelRole::dsink:
      return p.has_sink && form_dsink(traits, params, launch);
    case KernelRole::forward:
      return form_forward(traits, params, launch);
    case KernelRole::dbias:
      return p.has_dbias && form_dbias(traits, params, launch);
    case KernelRole::dq_dk_dv:
      break;
  }
  return false;
}

}  // namespace fmhax::portable
