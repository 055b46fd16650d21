// dot_do_o and convert_dq against plain loops, on random problems and layouts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "arch/layouts.hpp"
#include "auxiliary.hpp"
#include "device_case.hpp"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/workspace.hpp"
#include "launch.hpp"
#include "verification/half.hpp"

namespace {

using namespace fmhax;
using namespace fmhax::portable::test;
using verification::Case;
using verification::DenseTensor;
using verification::DeviceTensor;
using verification::GuardedBuffer;
using verification::Random;
using verification::SequencePlace;

struct Shape {
  std::int64_t batch, seqlen, nhead, hdim;
};

DeviceTensor device_tensor(DataType dtype, const Shape& shape, const verification::Layout& layout) {
  return DeviceTensor({dtype, shape.batch, shape.seqlen, shape.nhead, shape.hdim, layout});
}

/// Normal numbers as the type holds them; the same along dimensions that the layout expands.
DenseTensor draw(DataType dtype, const Shape& shape, const verification::Layout& layout, Random& random) {
  DenseTensor values(shape.batch, shape.seqlen, shape.nhead, shape.hdim);
  for (double& value : values.data) value = verification::round_to(dtype, random.normal());
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t s = 0; s < shape.seqlen; ++s) {
      for (std::int64_t h = 0; h < shape.nhead; ++h) {
        const double* from =
            values.row(layout.expands_batch ? 0 : b, layout.expands_seqlen ? 0 : s, layout.expands_nhead ? 0 : h);
        std::copy_n(from, shape.hdim, values.row(b, s, h));
      }
    }
  }
  return values;
}

Shape shape_of(const Problem& p, std::int64_t hdim) {
  return {verification::tensor_batch(p), verification::tensor_seqlen_q(p), p.nhead_q, hdim};
}

TEST_CASE("dot_do_o is the sum of products in every real row, and never touches another") {
  for (std::uint64_t i = 0; i < 150; ++i) {
    CAPTURE(i);
    const Case c = random_case(i, 3e6);
    const Problem& p = c.problem;
    Random random(9, i);
    const Shape shape = shape_of(p, p.hdim_v);
    const Shape row_shape = shape_of(p, 1);
    const auto rows = real_rows(c, SequenceSide::q);
    const CaseLengths lengths(c);
    const DenseTensor dout = draw(p.dtype, shape, c.layouts.dout, random);
    const DenseTensor o = draw(p.dtype, shape, c.layouts.o, random);
    DeviceTensor dout_on_device = device_tensor(p.dtype, shape, c.layouts.dout);
    DeviceTensor o_on_device = device_tensor(p.dtype, shape, c.layouts.o);
    DeviceTensor d_on_device = device_tensor(DataType::fp32, row_shape, c.layouts.d);
    dout_on_device.upload(dout, rows);
    o_on_device.upload(o, rows);

    KernelParams params;
    params.problem = p;
    params.lengths = lengths.device();
    params.dout = ref_of(dout_on_device);
    params.o = ref_of(o_on_device);
    params.d = ref_of(d_on_device);
    KernelLaunch launch;
    REQUIRE(portable::form_dot_do_o(small_device(), params, launch));
    play(launch);

    const DenseTensor d = d_on_device.download();
    double worst = 0.0;
    for (const SequencePlace& place : rows) {
      for (std::int64_t s = place.start; s < place.start + place.length; ++s) {
        for (std::int64_t h = 0; h < p.nhead_q; ++h) {
          double wanted = 0.0;
          double size = 0.0;
          for (std::int64_t column = 0; column < p.hdim_v; ++column) {
            const double product = dout.row(place.batch_index, s, h)[column] * o.row(place.batch_index, s, h)[column];
            wanted += product;
            size += std::abs(product);
          }
          const double error = std::abs(*d.row(place.batch_index, s, h) - wanted) / (size + 1e-30);
          worst = error <= worst ? worst : error;
        }
      }
    }
    CHECK(worst < 1e-6);
    CHECK(d_on_device.stray_write().empty());
  }
}

/// Sums over the splits of what dq_acc holds of one sequence, [nhead, nsplits, seqlen_q, hdim], at one position of a
/// row.
double accumulated(const std::vector<float>& dq_acc, const Problem& p, std::int64_t offset, std::int64_t nsplits,
                   std::int64_t seqlen, std::int64_t head, std::int64_t row, int position) {
  float sum = 0.0F;
  for (std::int64_t split = 0; split < nsplits; ++split) {
    const std::int64_t begin = offset + (head * nsplits + split) * seqlen * p.hdim_q;
    const portable::QuadPlace quad =
        portable::dq_acc_quad<portable::DqOrder>(row, position / 4, seqlen, static_cast<int>(p.hdim_q));
    sum += dq_acc[static_cast<std::size_t>(begin + quad.first + position % 4 * quad.stride)];
  }
  return static_cast<double>(sum);
}

struct Conversion {
  DenseTensor wanted;
  DenseTensor got;
  std::string stray_write;

  /// The same numbers, and NaN in the same places.
  bool is_as_wanted() const {
    return std::equal(got.data.begin(), got.data.end(), wanted.data.begin(), wanted.data.end(),
                      [](double a, double b) { return a == b || (a != a && b != b); });
  }
};

Conversion convert(const Case& c, const WorkspaceSpec& spec, Random& random, bool is_refused) {
  const Problem& p = c.problem;
  const CaseLengths lengths(c);
  std::vector<std::byte> metadata(static_cast<std::size_t>(workspace_host_size(spec, p.batch)));
  const PackResult packed = pack_workspace_host(spec, p, lengths.host(), metadata.data());
  REQUIRE(packed.status.code == StatusCode::ok);
  const auto* nsplits = reinterpret_cast<const std::int32_t*>(metadata.data());
  const auto* offsets = reinterpret_cast<const std::int64_t*>(metadata.data() + dq_acc_offsets_position(spec, p.batch));
  std::vector<float> dq_acc(static_cast<std::size_t>(packed.dq_acc_bytes / 4));
  for (float& value : dq_acc) value = static_cast<float>(random.normal());

  const Shape shape = shape_of(p, p.hdim_q);
  const float scale = 0.37F;
  Conversion result;
  // Rows of no sequence are left alone: they keep the poison, a NaN.
  result.wanted = DenseTensor(shape.batch, shape.seqlen, shape.nhead, shape.hdim, std::nan(""));
  for (std::int64_t i = 0; i < p.batch && !is_refused; ++i) {
    const SequenceRange range = sequence_range(p, lengths.host(), SequenceSide::q, i);
    const std::int64_t splits = nsplits[p.is_group_mode && p.is_deterministic ? i : 0];
    const std::int64_t offset = p.is_group_mode ? offsets[i] : i * p.nhead_q * splits * range.physical * p.hdim_q;
    for (std::int64_t row = 0; row < range.physical; ++row) {
      for (std::int64_t head = 0; head < p.nhead_q; ++head) {
        double* to = result.wanted.row(p.is_group_mode ? 0 : i, range.start + row, head);
        std::fill_n(to, p.hdim_q, 0.0);
        if (row >= range.logical) continue;
        for (int position = 0; position < static_cast<int>(p.hdim_q); ++position) {
          const double sum = accumulated(dq_acc, p, offset, splits, range.physical, head, row, position);
          to[portable::DqOrder::column(position, static_cast<int>(p.hdim_q))] =
              verification::round_to(p.dtype, static_cast<double>(scale * static_cast<float>(sum)));
        }
      }
    }
  }

  GuardedBuffer metadata_on_device(metadata.size());
  if (is_refused) reinterpret_cast<std::int32_t*>(metadata.data())[0] = kInvalidCall;
  metadata_on_device.upload(metadata);
  GuardedBuffer dq_acc_on_device(dq_acc.size() * 4);
  dq_acc_on_device.upload(bytes_of(dq_acc));
  const DeviceTensor dq = device_tensor(p.dtype, shape, c.layouts.dq);
  KernelParams params;
  params.problem = p;
  params.scale = scale;
  params.lengths = lengths.device();
  params.dq = ref_of(dq);
  params.nsplits = static_cast<const std::int32_t*>(metadata_on_device.data());
  if (p.is_group_mode) {
    params.dq_acc_offsets = reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(metadata_on_device.data()) +
                                                                  dq_acc_offsets_position(spec, p.batch));
  }
  params.dq_acc = dq_acc_on_device.data();
  KernelLaunch launch;
  REQUIRE(portable::form_convert_dq(small_device(), params, launch));
  play(launch);
  result.got = dq.download();
  result.stray_write = dq.stray_write();
  if (p.is_group_mode && !is_refused) {
    // Rows behind the last sequence are dq_dk_dv's to clear.
    const std::int64_t rows = p.batch > 0 ? tail_rows(p, lengths.host(), SequenceSide::q).begin : 0;
    for (DenseTensor* tensor : {&result.got, &result.wanted}) {
      tensor->data.resize(static_cast<std::size_t>(rows * p.nhead_q * p.hdim_q));
    }
  }
  return result;
}

TEST_CASE("convert_dq sums the splits in order and writes every row of a sequence") {
  for (std::uint64_t i = 0; i < 150; ++i) {
    CAPTURE(i);
    const Case c = random_case(i, 3e6);
    Random random(10, i);
    const Conversion result = convert(c, spec_of(c.problem, 32), random, false);
    CHECK(result.is_as_wanted());
    CHECK(result.stray_write.empty());
  }
}

TEST_CASE("convert_dq makes every row of a refused call NaN") {
  for (std::uint64_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    const Case c = random_case(i, 1e6);
    if (c.problem.batch == 0) continue;  // nothing can be wrong with it
    Random random(11, i);
    const Conversion result = convert(c, spec_of(c.problem, 32), random, true);
    std::int64_t numbers = 0;
    for (const double value : result.got.data) numbers += value == value ? 1 : 0;
    CHECK(numbers == 0);
    CHECK(result.stray_write.empty());
  }
}

TEST_CASE("convert_dq finds rows among thousands of sequences, most of them empty") {
  Case c;
  Problem& p = c.problem;
  p.is_group_mode = true;
  p.batch = 5000;
  p.nhead_q = p.nhead_k = 2;
  p.hdim_q = p.hdim_v = 8;
  Random random(12);
  for (verification::SideLengths* side : {&c.lengths.q, &c.lengths.k}) {
    side->seqstart.push_back(0);
    for (std::int64_t i = 0; i < p.batch; ++i) {
      const std::int64_t length = random.chance(10) ? random.integer(0, 9) : 0;
      side->seqstart.push_back(side->seqstart.back() + static_cast<std::int32_t>(length));
    }
  }
  p.total_q = c.lengths.q.seqstart.back() + 100;
  p.total_k = c.lengths.k.seqstart.back();
  p.max_seqlen_q = p.max_seqlen_k = 9;
  for (const bool is_deterministic : {false, true}) {
    p.is_deterministic = is_deterministic;
    const Conversion result = convert(c, spec_of(p, 4), random, false);
    CHECK(result.is_as_wanted());
  }
}

}  // namespace
