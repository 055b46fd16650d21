#include "verification/device_features.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

namespace fmhax::verification {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Elements between one sequence's slopes and the next one's.
constexpr std::int64_t kExtraSlopes = 3;

TensorShape row_by_key_shape(const Case& c, DataType dtype, bool is_broadcast_batch, bool is_broadcast_nhead,
                             const Layout& layout) {
  const Problem& p = c.problem;
  return {dtype,
          is_broadcast_batch ? 1 : tensor_batch(p),
          tensor_seqlen_q(p),
          is_broadcast_nhead ? 1 : p.nhead_q,
          p.max_seqlen_k,
          layout};
}

/// All rows of a tensor.
std::vector<SequencePlace> everything(const DenseTensor& tensor) {
  std::vector<SequencePlace> places;
  for (std::int64_t b = 0; b < tensor.batch; ++b) places.push_back({b, 0, tensor.seqlen});
  return places;
}

/// The bias with NaN wherever no pair of a real row and a real key reads it.
DenseTensor with_unread_nan(const Case& c, const DenseTensor& bias) {
  DenseTensor result(bias.batch, bias.seqlen, bias.nhead, bias.hdim, kNaN);
  for (std::int64_t b = 0; b < c.problem.batch; ++b) {
    const SequencePlace q = place_of(c.problem, c.lengths.q, c.problem.max_seqlen_q, b);
    const SequencePlace k = place_of(c.problem, c.lengths.k, c.problem.max_seqlen_k, b);
    const std::int64_t batch = bias.batch == 1 ? 0 : q.batch_index;
    for (std::int64_t i = q.start; i < q.start + q.length; ++i) {
      for (std::int64_t h = 0; h < bias.nhead; ++h) {
        const double* from = bias.row(batch, i, h);
        std::copy(from, from + k.length, result.row(batch, i, h));
      }
    }
  }
  return result;
}

template <class T>
void upload(const std::vector<T>& values, GuardedBuffer& buffer) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  if (buffer.data() == nullptr) buffer = GuardedBuffer(bytes.size());
  buffer.upload(bytes);
}

std::vector<float> to_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::int64_t alibi_stride(const Case& c) {
  return c.features.alibi_per_sequence ? c.problem.nhead_q + kExtraSlopes : 0;
}

}  // namespace

DeviceFeatures::DeviceFeatures(const Case& c) : case_(c) {
  const Problem& p = c.problem;
  const FeatureChoices& f = c.features;
  if (p.bias == BiasKind::elementwise) {
    bias_.emplace(row_by_key_shape(c, p.dtype, f.bias_expands_batch, f.bias_expands_nhead, f.bias));
  }
  if (p.has_dbias) dbias_.emplace(row_by_key_shape(c, p.dtype, f.dbias_sums_batch, f.dbias_sums_nhead, f.dbias));
  if (p.stores_random_values) {
    random_values_.emplace(row_by_key_shape(c, DataType::uint8, false, false, f.random_values));
  }
  if (p.has_dlse) {
    dlse_.emplace(TensorShape{DataType::fp32, tensor_batch(p), tensor_seqlen_q(p), p.nhead_q, 1, f.dlse});
  }
  if (p.has_sink) dsink_ = GuardedBuffer(static_cast<std::size_t>(p.nhead_q) * sizeof(float));
}

void DeviceFeatures::load(const Case& c, const AttentionInputs& inputs) {
  case_ = c;
  const Problem& p = c.problem;
  const FeatureInputs& f = inputs.features;
  if (bias_) bias_->upload(with_unread_nan(c, f.bias), everything(f.bias));
  if (dlse_) {
    std::vector<SequencePlace> rows;
    for (std::int64_t b = 0; b < p.batch; ++b) rows.push_back(place_of(p, c.lengths.q, p.max_seqlen_q, b));
    dlse_->upload(f.dlse, rows);
  }
  if (p.has_sink) upload(to_floats(f.sink), sink_);
  if (p.bias == BiasKind::alibi) {
    std::vector<float> slopes = to_floats(f.alibi_slopes);
    if (c.features.alibi_per_sequence) {
      std::vector<float> spread(static_cast<std::size_t>(std::max<std::int64_t>(p.batch, 1) * alibi_stride(c)),
                                std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t i = 0; i < p.batch * p.nhead_q; ++i) {
        spread[static_cast<std::size_t>(i / p.nhead_q * alibi_stride(c) + i % p.nhead_q)] =
            slopes[static_cast<std::size_t>(i)];
      }
      slopes = std::move(spread);
    }
    upload(slopes, alibi_slopes_);
  }
  dropout_ = f.dropout;
  if (p.has_dropout && c.features.dropout_from_memory) set_dropout(f.dropout.seed, f.dropout.offset);
}

void DeviceFeatures::set_dropout(std::uint64_t seed, std::uint64_t offset) {
  upload(std::vector<std::uint64_t>{seed}, seed_);
  upload(std::vector<std::uint64_t>{offset}, offset_);
}

void DeviceFeatures::fill(CallArguments& a) const {
  if (bias_) a.bias = bias_->view();
  if (dbias_) a.dbias = dbias_->view();
  if (random_values_) a.random_values = random_values_->view();
  if (dlse_) a.dlse = dlse_->view();
  a.alibi_slopes = static_cast<const float*>(alibi_slopes_.data());
  if (case_.problem.bias == BiasKind::alibi) a.alibi_stride_batch = alibi_stride(case_);
  a.sink = static_cast<const float*>(sink_.data());
  a.dsink = static_cast<float*>(dsink_.data());
  a.softcap = case_.features.softcap;
  if (!case_.problem.has_dropout) return;
  a.dropout = dropout_;
  if (case_.features.dropout_from_memory) {
    a.dropout.seed = a.dropout.offset = 0;
    a.dropout.seed_pointer = static_cast<const std::uint64_t*>(seed_.data());
    a.dropout.offset_pointer = static_cast<const std::uint64_t*>(offset_.data());
  }
}

void DeviceFeatures::poison_outputs() {
  if (dbias_) dbias_->poison();
  if (random_values_) random_values_->poison();
  if (dsink_.data() != nullptr) dsink_.poison();
}

void DeviceFeatures::download(Gradients& gradients) const {
  if (dbias_) gradients.dbias = dbias_->download();
  if (random_values_) gradients.random_values = random_values_->download();
  if (dsink_.data() == nullptr) return;
  const std::vector<std::byte> bytes = dsink_.download();
  gradients.dsink = DenseTensor(1, 1, case_.problem.nhead_q, 1);
  for (std::size_t h = 0; h < gradients.dsink.data.size(); ++h) {
    float value = 0;
    std::memcpy(&value, bytes.data() + h * sizeof(value), sizeof(value));
    gradients.dsink.data[h] = static_cast<double>(value);
  }
}

std::string DeviceFeatures::violation() const {
  for (const auto& [name, tensor] : {std::pair{"bias", &bias_}, {"dlse", &dlse_}}) {
    if (*tensor && !(*tensor)->is_unchanged()) return fmt::format("{}: an input was written", name);
  }
  for (const auto& [name, tensor] :
       {std::pair{"bias", &bias_}, {"dbias", &dbias_}, {"random_values", &random_values_}, {"dlse", &dlse_}}) {
    const std::string stray = *tensor ? (*tensor)->stray_write() : std::string{};
    if (!stray.empty()) return fmt::format("{}: {}", name, stray);
  }
  for (const auto& [name, buffer] : {std::pair{"alibi_slopes", &alibi_slopes_},
                                     {"sink", &sink_},
                                     {"dsink", &dsink_},
                                     {"dropout.seed_pointer", &seed_},
                                     {"dropout.offset_pointer", &offset_}}) {
    if (buffer->data() != nullptr && !buffer->guards_are_intact()) {
      return fmt::format("{}: a guard zone was overwritten", name);
    }
  }
  return {};
}

}  // namespace fmhax::verification
