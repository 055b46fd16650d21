#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commands.hpp"
#include "device_check/device_check.h"
#include "fmhax/error.hpp"
#include "fmhax/version.hpp"
#include "problem_flags.hpp"

namespace {

constexpr int kUsageStatus = 2;
constexpr int kErrorStatus = 3;

int run(int argc, char** argv) {
  CLI::App app(
      "The backward pass of fused attention: what fmhax would run, whether it is right, how fast it is.\n"
      "Try:  fmhax plan --group --seqlens-q 2048,512,64 --deterministic\n"
      "      fmhax verify --random 100 --seed 7\n"
      "      fmhax bench --batch 2 --seqlen-q 1024 --mask causal");
  app.name("fmhax");
  app.set_version_flag("--version",
                       fmt::format("fmhax {}.{}.{}", FMHAX_VERSION_MAJOR, FMHAX_VERSION_MINOR, FMHAX_VERSION_PATCH));
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 in order, 1 a gradient is wrong, 2 the request can't be carried out as given or there is no "
      "device, 3 anything else.\n"
      "`fmhax COMMAND --help` explains a command's flags.");
  std::vector<fmhax::tool::Command> commands{fmhax::tool::add_plan(app), fmhax::tool::add_verify(app),
                                             fmhax::tool::add_bench(app)};
  for (fmhax::tool::Command& command : fmhax::tool::add_platform_commands(app)) commands.push_back(std::move(command));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // exit() prints help and version to stdout and messages to stderr.
    return app.exit(error) == 0 ? 0 : kUsageStatus;
  }
  for (const fmhax::tool::Command& command : commands) {
    if (command.app->parsed()) return require_device("fmhax") ? command.run() : kNoDeviceStatus;
  }
  return kUsageStatus;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const fmhax::tool::UsageError& error) {
    std::fprintf(stderr, "fmhax: %s\n", error.what());
    return kUsageStatus;
  } catch (const fmhax::Error& error) {
    std::fprintf(stderr, "fmhax: %s\n", error.what());
    const bool is_request = error.code() == fmhax::ErrorCode::invalid_argument ||
                            error.code() == fmhax::ErrorCode::unsupported || error.code() == fmhax::ErrorCode::overflow;
    return is_request ? kUsageStatus : kErrorStatus;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fmhax: %s\n", error.what());
    return kErrorStatus;
  }
}
