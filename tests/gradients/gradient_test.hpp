/// @file What the gradient tests share: cases that are quickly written down, and the check of one case.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verification/case.hpp"
#include "verification/verify_case.hpp"

namespace fmhax::test {

/// Every way of running a case.
inline const std::vector<verification::RunMode>& all_modes() {
  using verification::RunMode;
  static const std::vector<RunMode> kModes{RunMode::eager, RunMode::captured, RunMode::graph, RunMode::prepared};
  return kModes;
}

/// FMHAX_TEST_SEED, or the fixed default. Printed by the tests that draw from it.
std::uint64_t test_seed();

/// `plain`, or a twelfth of it in a build with a sanitizer; FMHAX_TEST_COUNT overrides both.
std::uint64_t test_count(std::uint64_t plain);

/// Names of the registered kernels that can run a problem on the current device; in a build with a sanitizer,
/// where everything takes ten times as long, one of them, each in its turn.
std::vector<std::string> kernels_for(const Problem& problem);

/// Whether any registered kernel runs the problem on the current device.
bool is_supported(const Problem& problem);

/// Gives the case another type where the device's kernels run its problem in others alone (GPU kernels have no fp32).
void fit_dtype(verification::Case& c);

/// fp32, fp16 and bf16; in a build with a sanitizer one of them, each in its turn.
std::vector<DataType> dtypes_to_test();

/// A case of 2 query heads on 1 key head, head dimensions 40 and 24, BSHD or THD, scale 1/sqrt(hdim_q).
verification::Case batch_case(std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_k, Mask mask = {});
verification::Case group_case(const std::vector<std::int32_t>& lengths_q, const std::vector<std::int32_t>& lengths_k,
                              Mask mask = {});
/// Fits total, max_seqlen and batch to lengths.seqstart.
void fit_capacity(verification::Case& c);

/// Checks that each of kernels_for, in every mode, computes the case in each of dtypes_to_test, deterministic and not;
/// types that no kernel of the device runs are left out where it runs others.
void check_everywhere(verification::Case c);

/// Checks the case as it is, with the kernel that would be chosen or the named one.
void check_case(const verification::Case& c, const std::string& kernel = {});

/// The gradients of one eager run, after check_case's checks.
verification::Gradients checked_gradients(const verification::Case& c);

}  // namespace fmhax::test
