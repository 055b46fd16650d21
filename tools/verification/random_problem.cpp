#include "verification/random_problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "verification/random.hpp"

namespace fmhax::verification {
namespace {

constexpr std::int64_t kLongest = 600;

std::int64_t random_length(Random& random) {
  if (random.chance(45)) {
    return random.pick<std::int64_t>({0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 113, 127, 128, 129, 203, 239});
  }
  return random.chance(60) ? random.integer(1, 130) : random.integer(0, kLongest);
}

std::pair<std::int64_t, std::int64_t> random_length_pair(Random& random) {
  using Pair = std::pair<std::int64_t, std::int64_t>;
  if (random.chance(15)) return random.pick<Pair>({{1, 1}, {239, 1}, {1, 239}, {113, 203}, {0, 64}, {64, 0}, {0, 0}});
  const std::int64_t q = random_length(random);
  return {q, random.chance(40) ? q : random_length(random)};
}

std::int64_t random_hdim(Random& random) {
  return random.chance(50) ? random.pick<std::int64_t>({32, 64, 96, 128}) : 8 * random.integer(1, 32);
}

Mask random_mask(Random& random) {
  switch (random.integer(0, 6)) {
    case 0:
    case 1:
      return Mask::none();
    case 2:
      return Mask::causal();
    case 3:
      return Mask::causal_bottom_right();
    default:
      break;
  }
  const auto bound = [&random]() -> std::int64_t {
    if (random.chance(20)) return -1;
    return random.chance(50) ? random.integer(0, 8) : random.integer(0, 300);
  };
  const std::int64_t left = bound();
  return Mask::window(left, random.chance(25) ? 0 : bound(),
                      random.chance(50) ? MaskAlignment::top_left : MaskAlignment::bottom_right);
}

Layout random_layout(Random& random, std::int64_t column_step) {
  Layout layout;
  layout.order = random.pick({Order::bshd, Order::bshd, Order::sbhd, Order::bhsd});
  if (random.chance(15)) layout.extra_columns = column_step * random.integer(1, 4);
  if (random.chance(15)) layout.extra_heads = random.integer(1, 5);
  return layout;
}

Layouts random_layouts(Random& random) {
  Layouts layouts;
  for (Layout* layout :
       {&layouts.q, &layouts.k, &layouts.v, &layouts.o, &layouts.dout, &layouts.dq, &layouts.dk, &layouts.dv}) {
    *layout = random_layout(random, 8);
  }
  layouts.lse = random_layout(random, 1);
  layouts.d = random_layout(random, 1);
  if (random.chance(15)) {
    layouts.dout.expands_batch = random.chance(60);
    layouts.dout.expands_seqlen = random.chance(60);
    layouts.dout.expands_nhead = random.chance(60);
  }
  return layouts;
}

/// Turns the tokens of one side into rows, with or without padding after each sequence.
SideLengths group_side(const std::vector<std::int64_t>& tokens, bool has_padding, Random& random) {
  SideLengths side;
  side.seqstart.push_back(0);
  for (const std::int64_t length : tokens) {
    const std::int64_t padding = has_padding && random.chance(60) ? random.integer(0, 40) : 0;
    side.seqstart.push_back(static_cast<std::int32_t>(side.seqstart.back() + length + padding));
    if (has_padding) side.logical.push_back(static_cast<std::int32_t>(length));
  }
  return side;
}

std::int64_t longest_physical(const SideLengths& side) {
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < side.seqstart.size(); ++i) {
    longest = std::max<std::int64_t>(longest, side.seqstart[i] - side.seqstart[i - 1]);
  }
  return longest;
}

/// Appends empty sequences and free rows, as a replay has that doesn't fill its graph's capacity.
void add_unused_capacity(SideLengths& side, bool has_padding, std::int64_t sequences, std::int64_t rows,
                         std::int64_t& total) {
  for (std::int64_t i = 0; i < sequences; ++i) {
    side.seqstart.push_back(side.seqstart.back());
    if (has_padding) side.logical.push_back(0);
  }
  total = side.seqstart.back() + rows;
}

struct Lengths {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> k;
};

double work_of_lengths(const Problem& p, const Lengths& lengths) {
  double pairs = 0;
  for (std::size_t i = 0; i < lengths.q.size(); ++i) {
    pairs += static_cast<double>(lengths.q[i]) * static_cast<double>(lengths.k[i]);
  }
  return pairs * static_cast<double>(p.nhead_q * (p.hdim_q + p.hdim_v));
}

/// Shortens the longer side of the largest sequence; in batch mode all sequences alike.
void shorten(const Problem& p, Lengths& lengths) {
  std::size_t largest = 0;
  for (std::size_t i = 1; i < lengths.q.size(); ++i) {
    if (lengths.q[i] * lengths.k[i] > lengths.q[largest] * lengths.k[largest]) largest = i;
  }
  auto& side = lengths.q[largest] > lengths.k[largest] ? lengths.q : lengths.k;
  const std::int64_t shorter = side[largest] * 3 / 4;
  if (p.is_group_mode) {
    side[largest] = shorter;
  } else {
    std::fill(side.begin(), side.end(), shorter);
  }
}

/// Makes a problem cheaper until it fits, sometimes with fewer heads and sometimes with shorter sequences.
void reduce_to(double budget, Problem& p, Lengths& lengths, Random& random) {
  while (work_of_lengths(p, lengths) > budget) {
    const std::int64_t ratio = p.nhead_q / p.nhead_k;
    if (random.chance(60)) {
      shorten(p, lengths);
    } else if (ratio > 1 && random.chance(50)) {
      p.nhead_q = p.nhead_k * (ratio - 1);
    } else if (p.nhead_k > 1) {
      p.nhead_k -= 1;
      p.nhead_q = p.nhead_k * ratio;
    } else if (lengths.q.size() > 1) {
      lengths.q.pop_back();
      lengths.k.pop_back();
    }
  }
}

void set_group_lengths(Case& c, const Lengths& lengths, Random& random) {
  Problem& p = c.problem;
  const bool has_padding = p.logical_lengths != LogicalLengths::none;
  c.lengths.q = group_side(lengths.q, has_padding, random);
  c.lengths.k = group_side(lengths.k, has_padding, random);
  const bool has_spare_room = random.chance(40);
  const std::int64_t sequences = has_spare_room ? random.integer(0, 4) : 0;
  add_unused_capacity(c.lengths.q, has_padding, sequences, has_spare_room ? random.integer(0, 50) : 0, p.total_q);
  add_unused_capacity(c.lengths.k, has_padding, sequences, has_spare_room ? random.integer(0, 50) : 0, p.total_k);
  p.batch = static_cast<std::int64_t>(lengths.q.size()) + sequences;
  p.max_seqlen_q = longest_physical(c.lengths.q) + (has_spare_room ? random.integer(0, 100) : 0);
  p.max_seqlen_k = longest_physical(c.lengths.k) + (has_spare_room ? random.integer(0, 100) : 0);
}

void set_batch_lengths(Case& c, const Lengths& lengths, Random& random) {
  Problem& p = c.problem;
  p.batch = static_cast<std::int64_t>(lengths.q.size());
  p.max_seqlen_q = p.batch > 0 ? lengths.q[0] : random_length(random);
  p.max_seqlen_k = p.batch > 0 ? lengths.k[0] : random_length(random);
  if (p.logical_lengths == LogicalLengths::none) return;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    c.lengths.q.logical.push_back(static_cast<std::int32_t>(random.integer(0, p.max_seqlen_q)));
    c.lengths.k.logical.push_back(static_cast<std::int32_t>(random.integer(0, p.max_seqlen_k)));
  }
}

void draw_bias(Case& c, Random& random) {
  Problem& p = c.problem;
  FeatureChoices& f = c.features;
  p.bias = random.pick({BiasKind::elementwise, BiasKind::elementwise, BiasKind::alibi});
  if (p.bias == BiasKind::alibi) {
    p.alibi_form = random.pick({AlibiForm::distance_top_left, AlibiForm::distance_bottom_right, AlibiForm::column});
    f.alibi_per_sequence = random.chance(50);
    return;
  }
  f.bias_expands_batch = random.chance(50);
  f.bias_expands_nhead = random.chance(50);
  p.has_dbias = random.chance(65);
  if (!p.has_dbias) return;
  const bool follows_bias = random.chance(60);
  f.dbias_sums_batch = follows_bias ? f.bias_expands_batch : random.chance(50);
  f.dbias_sums_nhead = follows_bias ? f.bias_expands_nhead : random.chance(50);
}

/// Features for half of the problems: each with the same chance, so that they also meet.
void draw_features(Case& c, Random& random) {
  // Tensors of a row by a key are rectangles even where the sequences are not.
  constexpr std::int64_t kMostElements = 3'000'000;
  Problem& p = c.problem;
  FeatureChoices& f = c.features;
  if (random.chance(50)) return;
  const bool has_room = rows_q(p) * p.nhead_q * std::max<std::int64_t>(p.max_seqlen_k, 1) <= kMostElements;
  if (random.chance(50) && has_room) draw_bias(c, random);
  if (random.chance(35)) {
    p.has_dropout = true;
    p.stores_random_values = random.chance(60) && has_room;
    f.dropout_probability = random.chance(10) ? 0.0F : static_cast<float>(0.6 * random.uniform());
    f.dropout_from_memory = random.chance(50);
  }
  // A sink would take all weight from logits that lie far below it, and a cap on logits that lie far beyond it would
  // leave no gradient but rounding noise.
  p.has_sink = random.chance(35) && c.distribution == Distribution::normal;
  p.has_dlse = random.chance(35);
  p.has_softcap = random.chance(35) && c.distribution == Distribution::normal;
  if (p.has_softcap) f.softcap = static_cast<float>(2 + 48 * std::pow(random.uniform(), 2));
  for (Layout* layout : {&f.bias, &f.dbias, &f.random_values, &f.dlse}) *layout = random_layout(random, 1);
}

}  // namespace

Case random_problem(std::uint64_t seed, std::uint64_t index, double budget) {
  Random random(seed, index);
  Case c;
  c.seed = random.next();
  Problem& p = c.problem;
  p.dtype = random.pick({DataType::fp32, DataType::fp16, DataType::bf16});
  p.is_group_mode = random.chance(50);
  p.is_deterministic = random.chance(50);
  p.nhead_k = random.pick<std::int64_t>({1, 1, 2, 3, 4});
  p.nhead_q = p.nhead_k * random.pick<std::int64_t>({1, 1, 2, 3, 5, 6, 7, 8});
  p.hdim_q = random_hdim(random);
  p.hdim_v = random.chance(50) ? p.hdim_q : random_hdim(random);
  p.mask = random_mask(random);
  if (random.chance(35)) {
    p.logical_lengths = random.pick({LogicalLengths::per_sequence, LogicalLengths::cumulative});
  }

  const std::int64_t sequences = random.chance(3) ? 0 : random.integer(1, p.is_group_mode ? 8 : 4);
  Lengths lengths;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto [q, k] = i > 0 && !p.is_group_mode ? std::pair{lengths.q[0], lengths.k[0]} : random_length_pair(random);
    lengths.q.push_back(q);
    lengths.k.push_back(k);
  }
  // Most problems are small, so that a list of thousands is quick; one in twelve may use all of the budget.
  reduce_to(random.chance(8) ? budget : budget * std::pow(random.uniform(), 2) / 5, p, lengths, random);
  if (p.is_group_mode) {
    set_group_lengths(c, lengths, random);
  } else {
    set_batch_lengths(c, lengths, random);
  }

  c.scale =
      static_cast<float>((random.chance(80) ? 1.0 : 0.3 + random.uniform()) / std::sqrt(static_cast<double>(p.hdim_q)));
  c.layouts = random_layouts(random);
  if (random.chance(12)) c.distribution = Distribution::huge_negative_logits;
  c.empty_rows_have_positive_lse = random.chance(50);
  draw_features(c, random);
  return c;
}

double work_of(const Case& c) {
  double pairs = 0;
  for (std::int64_t i = 0; i < c.problem.batch; ++i) {
    pairs += static_cast<double>(place_of(c.problem, c.lengths.q, c.problem.max_seqlen_q, i).length) *
             static_cast<double>(place_of(c.problem, c.lengths.k, c.problem.max_seqlen_k, i).length);
  }
  return pairs * static_cast<double>(c.problem.nhead_q * (c.problem.hdim_q + c.problem.hdim_v));
}

}  // namespace fmhax::verification
