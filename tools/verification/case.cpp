#include "verification/case.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fmhax/problem.hpp"
#include "verification/half.hpp"
#include "verification/random.hpp"

namespace fmhax::verification {
namespace {

/// Where logits of Distribution::huge_negative_logits lie: deep enough that exp(0 - lse) overflows fp32.
constexpr double kHugeLogit = -120.0;

void fill_normal(DenseTensor& tensor, DataType dtype, Random& random) {
  for (double& x : tensor.data) x = round_to(dtype, random.normal());
}

void fill_first_column(DenseTensor& tensor, double value) {
  for (std::size_t i = 0; i < tensor.data.size(); i += static_cast<std::size_t>(tensor.hdim)) tensor.data[i] = value;
}

void expand(DenseTensor& tensor, const Layout& layout) {
  for (std::int64_t b = 0; b < tensor.batch; ++b) {
    for (std::int64_t s = 0; s < tensor.seqlen; ++s) {
      for (std::int64_t h = 0; h < tensor.nhead; ++h) {
        const double* from =
            tensor.row(layout.expands_batch ? 0 : b, layout.expands_seqlen ? 0 : s, layout.expands_nhead ? 0 : h);
        if (from != tensor.row(b, s, h)) std::copy(from, from + tensor.hdim, tensor.row(b, s, h));
      }
    }
  }
}

/// Adds what the features need.
void draw_features(const Case& c, Random& random, AttentionInputs& in) {
  const Problem& p = c.problem;
  const FeatureChoices& choices = c.features;
  FeatureInputs& f = in.features;
  if (p.bias == BiasKind::elementwise) {
    f.bias = row_by_key(in, choices.bias_expands_batch ? 1 : in.q.batch, choices.bias_expands_nhead ? 1 : p.nhead_q, 0);
    fill_normal(f.bias, p.dtype, random);
  }
  f.dbias_batch = choices.dbias_sums_batch ? 1 : in.q.batch;
  f.dbias_nhead = choices.dbias_sums_nhead ? 1 : p.nhead_q;
  if (p.bias == BiasKind::alibi) {
    f.alibi_slopes.resize(static_cast<std::size_t>((choices.alibi_per_sequence ? p.batch : 1) * p.nhead_q));
    for (double& slope : f.alibi_slopes) slope = round_to(DataType::fp32, std::exp2(-8 * random.uniform()));
  }
  f.softcap = static_cast<double>(choices.softcap);
  if (p.has_dropout) f.dropout = {choices.dropout_probability, random.next(), random.next(), nullptr, nullptr};
  if (p.has_sink) {
    f.sink.resize(static_cast<std::size_t>(p.nhead_q));
    for (double& sink : f.sink) sink = round_to(DataType::fp32, 2 * random.normal());
  }
  if (p.has_dlse) {
    f.dlse = DenseTensor(in.q.batch, in.q.seqlen, p.nhead_q, 1);
    fill_normal(f.dlse, DataType::fp32, random);
  }
}

std::string describe_features(const Case& c) {
  const Problem& p = c.problem;
  const FeatureChoices& f = c.features;
  const auto broadcast = [](bool batch, bool nhead) {
    return std::string(batch && nhead ? "batch,nhead" : (batch ? "batch" : (nhead ? "nhead" : "nothing")));
  };
  std::string text;
  if (p.bias == BiasKind::elementwise) {
    text += " bias-broadcast:" + broadcast(f.bias_expands_batch, f.bias_expands_nhead);
  }
  if (p.has_dbias) text += " dbias-summed:" + broadcast(f.dbias_sums_batch, f.dbias_sums_nhead);
  if (f.alibi_per_sequence) text += " slopes-per-sequence";
  if (p.has_softcap) text += fmt::format(" cap={:.4g}", f.softcap);
  if (p.has_dropout) {
    text += fmt::format(" p={:.3g}{}", f.dropout_probability, f.dropout_from_memory ? " seed-in-memory" : "");
  }
  return text;
}

std::string describe(const char* name, const Layout& layout) {
  std::string text;
  if (layout.order != Order::bshd) text += layout.order == Order::sbhd ? " sbhd" : " bhsd";
  if (layout.extra_columns > 0) text += fmt::format(" columns+{}", layout.extra_columns);
  if (layout.extra_heads > 0) text += fmt::format(" heads+{}", layout.extra_heads);
  if (layout.expands_batch) text += " batch-expanded";
  if (layout.expands_seqlen) text += " seqlen-expanded";
  if (layout.expands_nhead) text += " nhead-expanded";
  return text.empty() ? text : fmt::format(" {}:[{}]", name, text.substr(1));
}

}  // namespace

std::string to_string(const Case& c) {
  std::string text = fmt::format("{} scale={:.4g}", to_string(c.problem), c.scale);
  if (c.problem.is_group_mode) {
    text += fmt::format(" seqstart_q={} seqstart_k={}", fmt::join(c.lengths.q.seqstart, ","),
                        fmt::join(c.lengths.k.seqstart, ","));
  }
  if (!c.lengths.q.logical.empty()) text += fmt::format(" logical_q={}", fmt::join(c.lengths.q.logical, ","));
  if (!c.lengths.k.logical.empty()) text += fmt::format(" logical_k={}", fmt::join(c.lengths.k.logical, ","));
  if (c.distribution == Distribution::huge_negative_logits) text += " huge-negative-logits";
  text += describe_features(c);
  const Layouts& l = c.layouts;
  for (const auto& [name, layout] : {std::pair{"q", l.q},
                                     {"k", l.k},
                                     {"v", l.v},
                                     {"o", l.o},
                                     {"dout", l.dout},
                                     {"lse", l.lse},
                                     {"d", l.d},
                                     {"dq", l.dq},
                                     {"dk", l.dk},
                                     {"dv", l.dv},
                                     {"bias", c.features.bias},
                                     {"dbias", c.features.dbias},
                                     {"random_values", c.features.random_values},
                                     {"dlse", c.features.dlse}}) {
    text += describe(name, layout);
  }
  return text;
}

AttentionInputs draw_inputs(const Case& c) {
  const Problem& p = c.problem;
  const std::int64_t batch = tensor_batch(p);
  AttentionInputs in{p,
                     static_cast<double>(c.scale),
                     c.lengths,
                     DenseTensor(batch, tensor_seqlen_q(p), p.nhead_q, p.hdim_q),
                     DenseTensor(batch, tensor_seqlen_k(p), p.nhead_k, p.hdim_q),
                     DenseTensor(batch, tensor_seqlen_k(p), p.nhead_k, p.hdim_v),
                     DenseTensor(batch, tensor_seqlen_q(p), p.nhead_q, p.hdim_v)};
  Random random(c.seed);
  for (DenseTensor* tensor : {&in.q, &in.k, &in.v, &in.dout}) fill_normal(*tensor, p.dtype, random);
  if (c.distribution == Distribution::huge_negative_logits) {
    // One column carries the shift. It is large in q and 1 in k, because dQ is a sum over keys in which
    // what all keys share cancels: a large column in k would measure that cancellation and nothing else.
    fill_first_column(in.q, round_to(p.dtype, kHugeLogit / in.scale));
    fill_first_column(in.k, 1.0);
  }
  expand(in.dout, c.layouts.dout);
  draw_features(c, random, in);
  return in;
}

}  // namespace fmhax::verification
