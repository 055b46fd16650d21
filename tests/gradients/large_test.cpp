/// @file More sequences or heads than a grid has room for in y or z on a GPU, each of them tiny.
#include <doctest/doctest.h>

#include "gradient_test.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

constexpr std::int64_t kMany = 70'000;
static_assert(kMany > 65'535);

void check(Case c) {
  c.problem.hdim_q = 16;
  c.problem.hdim_v = 8;
  for (const bool is_deterministic : {false, true}) {
    c.problem.is_deterministic = is_deterministic;
    test::fit_dtype(c);
    const PreparedCase prepared = prepare(c);
    for (const std::string& kernel : test::kernels_for(c.problem)) {
      ExecutorOptions options;
      options.kernel = kernel;
      options.metadata_path = is_deterministic ? MetadataPath::host : MetadataPath::device;
      INFO(to_string(c), "; kernel ", kernel);
      CHECK(verify(prepared, {RunMode::eager, RunMode::graph}, options).failure == "");
    }
  }
}

/// Lengths 0 to 3, mixed.
std::vector<std::int32_t> tiny_lengths(std::int64_t count, std::int64_t step) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) lengths.push_back(static_cast<std::int32_t>(i * step % 7 % 4));
  return lengths;
}

}  // namespace

TEST_CASE("seventy thousand sequences in batch mode") {
  Case c = test::batch_case(kMany, 2, 3, Mask::causal());
  c.problem.nhead_q = c.problem.nhead_k = 1;
  check(c);
}

TEST_CASE("seventy thousand sequences in group mode") {
  Case c = test::group_case(tiny_lengths(kMany, 3), tiny_lengths(kMany, 5));
  c.problem.nhead_q = c.problem.nhead_k = 1;
  check(c);
}

TEST_CASE("seventy thousand heads in batch mode") {
  Case c = test::batch_case(1, 2, 3, Mask::causal());
  c.problem.nhead_q = kMany;
  c.problem.nhead_k = kMany / 2;
  check(c);
}

TEST_CASE("seventy thousand heads in group mode") {
  Case c = test::group_case({2, 0, 1}, {1, 2, 0});
  c.problem.nhead_q = kMany;
  c.problem.nhead_k = kMany;
  check(c);
}
