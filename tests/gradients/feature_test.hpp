/// @file Cases with features, quickly written down.
#pragma once

#include <string>
#include <vector>

#include "gradient_test.hpp"

namespace fmhax::test {

struct Feature {
  const char* name;
  void (*add)(verification::Case&);
};

/// Each feature alone, in each of its forms.
const std::vector<Feature>& features();

/// All features at once, with elementwise bias or with ALiBi.
void add_everything(verification::Case& c, BiasKind bias);

/// Cases for direct and for other kernels, batch and group mode, with and without hidden pairs.
std::vector<verification::Case> cases_for_features();

}  // namespace fmhax::test
