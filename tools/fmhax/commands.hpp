/// @file The subcommands. Each adds itself to the application and returns what runs it.
#pragma once

#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

namespace fmhax::tool {

/// Runs the subcommand; the result is the process's exit status.
using Action = std::function<int()>;

struct Command {
  CLI::App* app = nullptr;
  Action run;
};

Command add_plan(CLI::App& application);
Command add_verify(CLI::App& application);
Command add_bench(CLI::App& application);
/// What only this build's platform has: `explore` on platform/host.
std::vector<Command> add_platform_commands(CLI::App& application);

}  // namespace fmhax::tool
