#include "entries.hpp"

#include "auxiliary.hpp"
#include "backward_launch.hpp"

namespace fmhax::portable {
namespace {

template <DataType kDtype, int kHdimQ, int kHdimV, bool kIsDirect>
struct Row {
  static constexpr BackwardConfig config_of(TileSet set, bool has_features) {
    return backward_config(set, kDtype, kHdimQ, kHdimV, kIsDirect, has_features);
  }
  // Kernels with features need no more of anything that is asked for here than those without.
  static BackwardConfig config_on(const DeviceTraits& traits) { return config_of(tile_set(traits), false); }
  static constexpr bool is_consistent(TileSet set) {
    const BackwardConfig plain = config_of(set, false);
    const BackwardConfig full = config_of(set, true);
    return !plain.is_available ||
           (plain.is_consistent() && full.is_consistent() && plain.tile_keys() == full.tile_keys());
  }
  static_assert(is_consistent(TileSet::nvidia) && is_consistent(TileSet::cdna3) && is_consistent(TileSet::cdna4) &&
                is_consistent(TileSet::rdna4));

  static const char* unsupported_reason(const Problem& p, const DeviceTraits& traits) {
    return portable::unsupported_reason(config_on(traits), p, traits);
  }
  /// The smallest head dimensions, and one launch rather than several.
  static std::int32_t rank(const Problem&, const DeviceTraits&) {
    return 10000 - 4 * (kHdimQ + kHdimV) + (kIsDirect ? 1 : 0);
  }
  static WorkspaceSpec workspace_spec(const Problem& p, const DeviceTraits& traits) {
    return portable::workspace_spec(config_on(traits), p);
  }
  static bool form_launch(KernelRole role, const DeviceTraits& traits, const KernelParams& params,
                          KernelLaunch& launch) {
    if (role != KernelRole::dq_dk_dv) {
      WorkspaceSpec spec = portable::workspace_spec(config_on(traits), params.problem);
      spec.max_splits = params.max_splits;
      return form_auxiliary(role, spec, traits, params, launch);
    }
    static const BackwardFunctions functions = backward_functions<kDtype, kHdimQ, kHdimV>();
    return form_backward(kIsDirect, functions, kHdimQ, kHdimV, traits, params, launch);
  }

  static constexpr KernelEntry entry(const char* name) {
    KernelEntry e;
    e.name = name;
    e.unsupported_reason = unsupported_reason;
    e.rank = rank;
    e.workspace_spec = workspace_spec;
    e.form_launch = form_launch;
    return e;
  }
};

constexpr KernelEntry kEntries[] = {
#define FMHAX_BACKWARD_INSTANCE(dtype, hdim_q, hdim_v)                                                     \
  Row<DataType::dtype, hdim_q, hdim_v, true>::entry("portable-" #dtype "-" #hdim_q "x" #hdim_v "-direct"), \
      Row<DataType::dtype, hdim_q, hdim_v, false>::entry("portable-" #dtype "-" #hdim_q "x" #hdim_v "-general"),
#include "backward_instances.inc"
#undef FMHAX_BACKWARD_INSTANCE
};

}  // namespace

std::span<const KernelEntry> entries() { return kEntries; }

}  // namespace fmhax::portable
