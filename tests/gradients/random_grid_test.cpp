/// @file Gradients of random problems against fp64. The seed is printed; FMHAX_TEST_SEED sets it.
#include <doctest/doctest.h>

#include "gradient_test.hpp"
#include "verification/random_problem.hpp"

using namespace fmhax;

TEST_CASE("random problems have the right gradients in every way of running them") {
  const std::uint64_t seed = test::test_seed();
  const std::uint64_t count = test::test_count(300);
  MESSAGE("seed " << seed << ", " << count << " problems; one alone: fmhax verify --random 1 --seed " << seed
                  << " --first I");
  for (std::uint64_t i = 0; i < count; ++i) {
    INFO("problem ", i);
    verification::Case c = verification::random_problem(seed, i);
    test::fit_dtype(c);
    test::check_case(c);
  }
}

TEST_CASE("every kernel that accepts a random problem has the right gradients") {
  constexpr double kMostWork = 4e6;  // each problem runs with up to six kernels
  const std::uint64_t seed = test::test_seed() + 1;
  const std::uint64_t count = test::test_count(60);
  MESSAGE("seed " << seed << ", the smaller of " << count << " problems");
  for (std::uint64_t i = 0; i < count; ++i) {
    verification::Case c = verification::random_problem(seed, i);
    test::fit_dtype(c);
    if (verification::work_of(c) > kMostWork) continue;
    for (const std::string& kernel : test::kernels_for(c.problem)) {
      INFO("fmhax verify --random 1 --seed ", seed, " --first ", i, " --kernel ", kernel);
      test::check_case(c, kernel);
    }
  }
}
