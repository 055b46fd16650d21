#include "commands.hpp"

namespace fmhax::tool {

std::vector<Command> add_platform_commands(CLI::App&) { return {}; }

}  // namespace fmhax::tool
