#include <cmath>
#include <cstdio>
#include <random>

#include <doctest/doctest.h>

#include "program.hpp"
#include "verification/reference.hpp"

using namespace fmhax;

namespace {

constexpr std::int64_t kTokens = 192;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHdim = 64;

double norm(const verification::DenseTensor& tensor) {
  double sum = 0;
  for (const double value : tensor.data) sum += value * value;
  return std::sqrt(sum);
}

/// The sample's inputs: q, k, v, o (overwritten by the forward pass), dout, in this order from one generator.
verification::AttentionInputs sample_inputs(std::vector<std::int32_t> seqstart) {
  std::minstd_rand random(1);
  const auto tensor = [&random] {
    verification::DenseTensor t(1, kTokens, kHeads, kHdim);
    for (double& value : t.data) value = static_cast<float>(random() % 2001) / 1000 - 1;
    return t;
  };
  verification::AttentionInputs inputs;
  Problem& problem = inputs.problem;
  problem.dtype = DataType::fp32;
  problem.is_group_mode = true;
  problem.batch = 3;
  problem.nhead_q = problem.nhead_k = kHeads;
  problem.hdim_q = problem.hdim_v = kHdim;
  problem.max_seqlen_q = problem.max_seqlen_k = problem.total_q = problem.total_k = kTokens;
  problem.mask = Mask::causal();
  inputs.scale = 0.125;
  inputs.lengths.q.seqstart = inputs.lengths.k.seqstart = std::move(seqstart);
  inputs.q = tensor();
  inputs.k = tensor();
  inputs.v = tensor();
  tensor();
  inputs.dout = tensor();
  return inputs;
}

}  // namespace

TEST_CASE("minimal prints the norms of the fp64 reference's gradients for both batches") {
  const sample::ProgramRun run = sample::run_program(FMHAX_MINIMAL_PROGRAM);
  CHECK(run.exit_status == 0);
  REQUIRE(run.lines.size() == 2);
  const std::vector<std::vector<std::int32_t>> batches = {{0, 100, 128, 192}, {0, 7, 7, 150}};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    CAPTURE(run.lines[i]);
    int lengths[3] = {};
    double norms[3] = {};
    char status[8] = {};
    REQUIRE(std::sscanf(run.lines[i].c_str(), "%d, %d and %d tokens, |dq| |dk| |dv| = %lf %lf %lf, status: %7s",
                        &lengths[0], &lengths[1], &lengths[2], &norms[0], &norms[1], &norms[2], status) == 7);
    for (std::size_t j = 0; j < 3; ++j) CHECK(lengths[j] == batches[i][j + 1] - batches[i][j]);
    CHECK(std::string(status) == "ok");

    const verification::AttentionInputs inputs = sample_inputs(batches[i]);
    const auto backward = verification::reference_backward(inputs, verification::reference_forward(inputs));
    CHECK(norms[0] == doctest::Approx(norm(backward.gradients.dq)).epsilon(2e-5));
    CHECK(norms[1] == doctest::Approx(norm(backward.gradients.dk)).epsilon(2e-5));
    CHECK(norms[2] == doctest::Approx(norm(backward.gradients.dv)).epsilon(2e-5));
  }
}
