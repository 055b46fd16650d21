#include "entries.hpp"

namespace fmhax::portable {

std::span<const KernelEntry> entries() { return {}; }

}  // namespace fmhax::portable
