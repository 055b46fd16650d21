// forward, dbias and dsink, with every feature, against the fp64 reference.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "auxiliary.hpp"
#include "device_case.hpp"
#include "launch.hpp"
#include "verification/compare.hpp"
#include "verification/device_features.hpp"
#include "verification/reference.hpp"

namespace {

using namespace fmhax;
using namespace fmhax::portable::test;
using verification::AttentionInputs;
using verification::Case;
using verification::DenseTensor;
using verification::DeviceTensor;
using verification::Expected;

/// The tensors of a case for the kernels that compute attention itself.
class AttentionCall {
 public:
  AttentionCall(const Case& c, const AttentionInputs& inputs)
      : problem_(c.problem),
        lengths_(c),
        q_(shape(SequenceSide::q, c.problem.dtype, c.problem.nhead_q, c.problem.hdim_q, c.layouts.q)),
        k_(shape(SequenceSide::k, c.problem.dtype, c.problem.nhead_k, c.problem.hdim_q, c.layouts.k)),
        v_(shape(SequenceSide::k, c.problem.dtype, c.problem.nhead_k, c.problem.hdim_v, c.layouts.v)),
        o_(shape(SequenceSide::q, c.problem.dtype, c.problem.nhead_q, c.problem.hdim_v, c.layouts.o)),
        dout_(shape(SequenceSide::q, c.problem.dtype, c.problem.nhead_q, c.problem.hdim_v, c.layouts.dout)),
        lse_(shape(SequenceSide::q, DataType::fp32, c.problem.nhead_q, 1, c.layouts.lse)),
        d_(shape(SequenceSide::q, DataType::fp32, c.problem.nhead_q, 1, c.layouts.d)),
        features_(c) {
    q_.upload(inputs.q, real_rows(c, SequenceSide::q));
    k_.upload(inputs.k, real_rows(c, SequenceSide::k));
    v_.upload(inputs.v, real_rows(c, SequenceSide::k));
    dout_.upload(inputs.dout, real_rows(c, SequenceSide::q));
    features_.load(c, inputs);
    features_.poison_outputs();
    params_.problem = problem_;
    params_.scale = c.scale;
    params_.lengths = lengths_.device();
    params_.q = ref_of(q_);
    params_.k = ref_of(k_);
    params_.v = ref_of(v_);
    params_.o = ref_of(o_);
    params_.dout = ref_of(dout_);
    params_.lse = ref_of(lse_);
    params_.d = ref_of(d_);
    CallArguments call;
    features_.fill(call);
    params_.bias = broadcast_ref_of(call.bias);
    params_.dbias = broadcast_ref_of(call.dbias);
    params_.dbias_batch = call.dbias.batch;
    params_.dbias_nhead = call.dbias.nhead;
    params_.random_values = broadcast_ref_of(call.random_values);
    params_.dlse = broadcast_ref_of(call.dlse);
    params_.alibi_slopes = call.alibi_slopes;
    params_.alibi_stride_batch = call.alibi_stride_batch;
    params_.sink = call.sink;
    params_.dsink = call.dsink;
    params_.dropout = call.dropout;
    params_.softcap = call.softcap;
  }

  void run(KernelRole role) const {
    WorkspaceSpec spec;
    spec.writes_dq_directly = true;  // without metadata: the kernels check the lengths themselves
    KernelLaunch launch;
    REQUIRE(portable::form_auxiliary(role, spec, small_device(), params_, launch));
    play(launch);
  }

  /// The reference's o and lse, so that their own errors don't count.
  void load_forward(const Case& c, const verification::ForwardResult& forward) {
    o_.upload(forward.o, real_rows(c, SequenceSide::q));
    lse_.upload(forward.lse, real_rows(c, SequenceSide::q));
  }

  DenseTensor o() const { return o_.download(); }
  DenseTensor lse() const { return lse_.download(); }
  verification::Gradients gradients() const {
    verification::Gradients result;
    features_.download(result);
    return result;
  }
  std::string violation() const {
    const std::string stray = o_.stray_write() + lse_.stray_write() + d_.stray_write();
    return stray.empty() ? features_.violation() : stray;
  }
  SequenceLengths& lengths() { return params_.lengths; }

 private:
  verification::TensorShape shape(SequenceSide side, DataType dtype, std::int64_t nhead, std::int64_t hdim,
                                  const verification::Layout& layout) const {
    return {dtype,
            verification::tensor_batch(problem_),
            side == SequenceSide::q ? verification::tensor_seqlen_q(problem_) : verification::tensor_seqlen_k(problem_),
            nhead,
            hdim,
            layout};
  }

  Problem problem_;
  CaseLengths lengths_;
  DeviceTensor q_, k_, v_, o_, dout_, lse_, d_;
  verification::DeviceFeatures features_;
  KernelParams params_;
};

void check_forward(const Case& c, const AttentionCall& call, const Expected& expected) {
  const DenseTensor o = call.o();
  const DenseTensor& wanted_o = expected.forward.o;
  double error = 0.0;
  // Next to a large sink all of o may vanish: what fp16 has below its normal numbers is as good as 0.
  const double smallest = c.problem.dtype == DataType::fp16 ? std::exp2(-14) : std::exp2(-126);
  double size = 1e-30 + static_cast<double>(o.data.size()) * smallest * smallest;
  std::int64_t nonzero = 0;
  for (std::size_t at = 0; at < o.data.size(); ++at) {
    error += std::pow(o.data[at] - wanted_o.data[at], 2);
    size += std::pow(wanted_o.data[at], 2);
    nonzero += wanted_o.data[at] == 0.0 && o.data[at] != 0.0 ? 1 : 0;
  }
  CHECK(std::sqrt(error / size) < verification::tolerance_for(c.problem, expected.largest_logit));
  CHECK(nonzero == 0);

  const DenseTensor lse = call.lse();
  double worst = 0.0;
  std::int64_t finite = 0;
  for (std::size_t at = 0; at < lse.data.size(); ++at) {
    const double wanted = expected.forward.lse.data[at];
    if (std::isinf(wanted)) {
      finite += lse.data[at] == wanted ? 0 : 1;
    } else {
      const double difference = std::abs(lse.data[at] - wanted) / (1.0 + std::abs(wanted));
      worst = difference <= worst ? worst : difference;
    }
  }
  CHECK(worst < 2e-5);
  CHECK(finite == 0);
}

/// As compare() does: rounding o and dS to the type may cost as much as it does in the reference's own rounding.
void check_gradient(const Case& c, const DenseTensor& got, const DenseTensor& wanted, const DenseTensor& rounded,
                    double terms, double largest_logit) {
  const double tolerance = verification::tolerance_for(c.problem, largest_logit);
  const double rounding = verification::relative_error(rounded, wanted, terms);
  CHECK(verification::relative_error(got, wanted, terms) <= std::max(tolerance, 1.25 * rounding));
}

void check_random_values(const DenseTensor& got, const DenseTensor& wanted) {
  std::int64_t wrong = 0;
  for (std::size_t at = 0; at < wanted.data.size(); ++at) {
    wrong += wanted.data[at] >= 0.0 && got.data[at] != wanted.data[at] ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("forward, dbias and dsink are the reference's, with all features") {
  int dbias_cases = 0;
  int dsink_cases = 0;
  int random_value_cases = 0;
  for (std::uint64_t i = 0; i < 250; ++i) {
    const Case c = featured_case(i, 2e6);
    const Problem& p = c.problem;
    CAPTURE(i);
    CAPTURE(to_string(c));
    const AttentionInputs inputs = verification::draw_inputs(c);
    const Expected expected = verification::expected_of(inputs);
    AttentionCall call(c, inputs);
    call.run(KernelRole::forward);
    check_forward(c, call, expected);
    CHECK(call.violation() == "");
    call.load_forward(c, expected.forward);
    if (p.has_dbias || p.has_sink) call.run(KernelRole::dot_do_o);
    if (p.has_dbias) call.run(KernelRole::dbias);
    if (p.has_sink) call.run(KernelRole::dsink);
    CHECK(call.violation() == "");
    const verification::Gradients gradients = call.gradients();
    const verification::BackwardResult& wanted = expected.backward;
    if (p.has_dbias) {
      check_gradient(c, gradients.dbias, wanted.gradients.dbias, expected.rounded.dbias, wanted.dbias_terms,
                     expected.largest_logit);
      ++dbias_cases;
    }
    if (p.has_sink) {
      check_gradient(c, gradients.dsink, wanted.gradients.dsink, expected.rounded.dsink, wanted.dsink_terms,
                     expected.largest_logit);
      ++dsink_cases;
    }
    if (p.stores_random_values) {
      check_random_values(gradients.random_values, expected.random_values);
      ++random_value_cases;
    }
  }
  CHECK(dbias_cases > 20);
  CHECK(dsink_cases > 20);
  CHECK(random_value_cases > 20);
}

TEST_CASE("forward, dbias and dsink of a refused call are NaN") {
  int refused = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Case c = featured_case(i, 5e5);
    const Problem& p = c.problem;
    if (!p.is_group_mode || p.batch == 0) continue;
    CAPTURE(i);
    const AttentionInputs inputs = verification::draw_inputs(c);
    AttentionCall call(c, inputs);
    verification::GuardedBuffer wrong((c.lengths.q.seqstart.size()) * sizeof(std::int32_t));
    wrong.upload(bytes_of(std::vector<std::int32_t>(c.lengths.q.seqstart.size(), -1)));
    call.lengths().seqstart_q = static_cast<const std::int32_t*>(wrong.data());
    call.run(KernelRole::forward);
    if (p.has_dbias) call.run(KernelRole::dbias);
    if (p.has_sink) call.run(KernelRole::dsink);
    CHECK(call.violation() == "");
    const verification::Gradients gradients = call.gradients();
    for (const DenseTensor& tensor : {call.o(), call.lse(), gradients.dbias, gradients.dsink}) {
      const auto is_number = [](double value) { return value == value; };
      CHECK(std::none_of(tensor.data.begin(), tensor.data.end(), is_number));
    }
    ++refused;
  }
  CHECK(refused > 10);
}

}  // namespace
