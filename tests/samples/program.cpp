#include "program.hpp"

#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>

#include <sys/wait.h>

namespace fmhax::sample {

ProgramRun run_program(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::stringstream output;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.write(buffer.data(), static_cast<std::streamsize>(size));
  }
  const int status = pclose(pipe);
  ProgramRun run;
  run.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  for (std::string line; std::getline(output, line);) run.lines.push_back(line);
  return run;
}

}  // namespace fmhax::sample
