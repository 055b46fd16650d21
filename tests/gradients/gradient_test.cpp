#include "gradient_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <doctest/doctest.h>

#include "fmhax/registry.hpp"
#include "verification/device_problem.hpp"

namespace fmhax::test {
namespace {

using verification::Case;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

Case small_case(Mask mask) {
  Case c;
  Problem& p = c.problem;
  p.dtype = DataType::fp32;
  p.nhead_q = 2;
  p.nhead_k = 1;
  p.hdim_q = 40;
  p.hdim_v = 24;
  p.mask = mask;
  c.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.hdim_q)));
  c.seed = test_seed();
  return c;
}

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

std::int64_t longest(const std::vector<std::int32_t>& starts) {
  std::int64_t result = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) result = std::max<std::int64_t>(result, starts[i] - starts[i - 1]);
  return result;
}

void check_prepared(const verification::PreparedCase& prepared, const std::string& kernel) {
  ExecutorOptions options;
  options.kernel = kernel;
  const verification::CaseReport report = verification::verify(prepared, all_modes(), options);
  INFO(to_string(prepared.source), "; kernel ", report.kernel, "; seed ", prepared.source.seed);
  CHECK_MESSAGE(report.passed(), report.failure);
  CHECK(report.modes.size() == 6);  // eager, prepared, and two replays each of captured and graph

  options.metadata_path = MetadataPath::device;
  const verification::CaseReport on_device = verification::verify(prepared, {verification::RunMode::graph}, options);
  CHECK_MESSAGE(on_device.passed(), "metadata packed on the device: ", on_device.failure);
}

}  // namespace

std::uint64_t test_seed() {
  const char* text = std::getenv("FMHAX_TEST_SEED");
  return text == nullptr ? 20260107 : std::strtoull(text, nullptr, 10);
}

std::uint64_t test_count(std::uint64_t plain) {
  const char* text = std::getenv("FMHAX_TEST_COUNT");
  if (text != nullptr) return std::strtoull(text, nullptr, 10);
  return kIsSanitized ? std::max<std::uint64_t>(plain / 12, 1) : plain;
}

std::vector<std::string> kernels_for(const Problem& problem) {
  // An executor knows the traits of the current device; the choice lists every entry's verdict.
  const Executor executor(problem);
  std::vector<std::string> names;
  for (const Candidate& candidate : executor.kernel_choice().candidates) {
    if (candidate.unsupported_reason.empty()) names.emplace_back(candidate.entry.name);
  }
  static std::size_t calls = 0;
  if (kIsSanitized) return {names[calls++ % names.size()]};
  return names;
}

bool is_supported(const Problem& problem) {
  try {
    const Executor executor(problem);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return false;
    throw;
  }
}

void fit_dtype(Case& c) {
  for (const DataType dtype : {c.problem.dtype, DataType::fp32, DataType::fp16, DataType::bf16}) {
    Problem p = c.problem;
    p.dtype = dtype;
    if (!is_supported(p)) continue;
    c.problem.dtype = dtype;
    return;
  }
}

std::vector<DataType> dtypes_to_test() {
  const std::vector<DataType> all{DataType::fp32, DataType::fp16, DataType::bf16};
  static std::size_t calls = 0;
  if (kIsSanitized) return {all[calls++ % all.size()]};
  return all;
}

Case batch_case(std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_k, Mask mask) {
  Case c = small_case(mask);
  c.problem.batch = batch;
  c.problem.max_seqlen_q = seqlen_q;
  c.problem.max_seqlen_k = seqlen_k;
  return c;
}

Case group_case(const std::vector<std::int32_t>& lengths_q, const std::vector<std::int32_t>& lengths_k, Mask mask) {
  Case c = small_case(mask);
  c.problem.is_group_mode = true;
  c.lengths.q.seqstart = starts_of(lengths_q);
  c.lengths.k.seqstart = starts_of(lengths_k);
  fit_capacity(c);
  return c;
}

void fit_capacity(Case& c) {
  Problem& p = c.problem;
  p.batch = static_cast<std::int64_t>(c.lengths.q.seqstart.size()) - 1;
  p.total_q = c.lengths.q.seqstart.back();
  p.total_k = c.lengths.k.seqstart.back();
  p.max_seqlen_q = longest(c.lengths.q.seqstart);
  p.max_seqlen_k = longest(c.lengths.k.seqstart);
}

void check_case(const Case& c, const std::string& kernel) { check_prepared(verification::prepare(c), kernel); }

void check_everywhere(Case c) {
  for (const bool is_deterministic : {false, true}) {
    c.problem.is_deterministic = is_deterministic;
    for (const DataType dtype : dtypes_to_test()) {
      c.problem.dtype = dtype;
      fit_dtype(c);
      if (c.problem.dtype != dtype) continue;
      const verification::PreparedCase prepared = verification::prepare(c);
      for (const std::string& kernel : kernels_for(c.problem)) check_prepared(prepared, kernel);
    }
  }
}

verification::Gradients checked_gradients(const Case& c) {
  check_case(c);
  const verification::PreparedCase prepared = verification::prepare(c);
  const Executor executor(c.problem);
  verification::DeviceProblem device(c, prepared.inputs, prepared.expected.forward, executor);
  return device.run(verification::RunMode::eager).front().gradients;
}

}  // namespace fmhax::test
