/// @file What `fmhax explore` runs: small programs that keep several streams and graphs busy at once.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "explore_calls.hpp"

namespace fmhax::tool {

class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual const char* name() const = 0;
  virtual const char* description() const = 0;
  /// Enqueues everything; what follows from `random` is the same for the same seed. When it throws, it has ended its
  /// captures and destroyed what it made.
  virtual void run(ExploredWorld& world, std::mt19937& random) = 0;
};

/// All scenarios, ready to be run again and again. The world must outlive them.
std::vector<std::unique_ptr<Scenario>> make_scenarios(ExploredWorld& world);

}  // namespace fmhax::tool
