// forward against the fp64 reference.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "auxiliary.hpp"
#include "device_case.hpp"
#include "launch.hpp"
#include "verification/reference.hpp"

namespace {

using namespace fmhax;
using namespace fmhax::portable::test;
using verification::Case;
using verification::DenseTensor;
using verification::DeviceTensor;

TEST_CASE("forward computes o and lse, zeroes and -infinity where a row sees nothing") {
  double worst_o = 0.0;
  double worst_lse = 0.0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    const Case c = random_case(i, 2e6);
    const Problem& p = c.problem;
    CAPTURE(to_string(c));
    const CaseLengths lengths(c);
    const verification::AttentionInputs inputs = verification::draw_inputs(c);
    const verification::ForwardResult wanted = verification::reference_forward(inputs);
    const std::int64_t batch = verification::tensor_batch(p);
    const std::int64_t rows = verification::tensor_seqlen_q(p);
    const std::int64_t keys = verification::tensor_seqlen_k(p);
    DeviceTensor q({p.dtype, batch, rows, p.nhead_q, p.hdim_q, c.layouts.q});
    DeviceTensor k({p.dtype, batch, keys, p.nhead_k, p.hdim_q, c.layouts.k});
    DeviceTensor v({p.dtype, batch, keys, p.nhead_k, p.hdim_v, c.layouts.v});
    const DeviceTensor o({p.dtype, batch, rows, p.nhead_q, p.hdim_v, c.layouts.o});
    const DeviceTensor lse({DataType::fp32, batch, rows, p.nhead_q, 1, c.layouts.lse});
    q.upload(inputs.q, real_rows(c, SequenceSide::q));
    k.upload(inputs.k, real_rows(c, SequenceSide::k));
    v.upload(inputs.v, real_rows(c, SequenceSide::k));
    KernelParams params;
    params.problem = p;
    params.scale = c.scale;
    params.lengths = lengths.device();
    params.q = ref_of(q);
    params.k = ref_of(k);
    params.v = ref_of(v);
    params.o = ref_of(o);
    params.lse = ref_of(lse);
    KernelLaunch launch;
    REQUIRE(portable::form_forward(small_device(), params, launch));
    play(launch);
    CHECK(o.stray_write().empty());
    CHECK(lse.stray_write().empty());
    const DenseTensor o_got = o.download();
    const DenseTensor lse_got = lse.download();
    double error = 0.0;
    double size = 1e-30;
    for (std::size_t at = 0; at < o_got.data.size(); ++at) {
      error += std::pow(o_got.data[at] - wanted.o.data[at], 2);
      size += std::pow(wanted.o.data[at], 2);
      if (wanted.o.data[at] == 0.0) CHECK(o_got.data[at] == 0.0);
    }
    error = std::sqrt(error / size);
    CHECK(error < (p.dtype == DataType::fp16 ? 2e-3 : 1e-2));
    worst_o = std::max(worst_o, error);
    for (std::size_t at = 0; at < lse_got.data.size(); ++at) {
      if (std::isinf(wanted.lse.data[at])) {
        CHECK(lse_got.data[at] == -std::numeric_limits<double>::infinity());
      } else {
        const double difference = std::abs(lse_got.data[at] - wanted.lse.data[at]);
        CHECK(difference < 1e-5 * (1.0 + std::abs(wanted.lse.data[at])));
        worst_lse = std::max(worst_lse, difference);
      }
    }
  }
  MESSAGE("largest error of o ", worst_o, ", of lse ", worst_lse);
}

}  // namespace
