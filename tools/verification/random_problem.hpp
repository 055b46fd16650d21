/// @file Random valid problems, each given by two numbers.
#pragma once

#include <cstdint>

#include "verification/case.hpp"

namespace fmhax::verification {

/// Problem `index` of the endless list that belongs to `seed`. Together the problems of a list cover: fp32,
/// fp16, bf16; batch and group mode; MHA, GQA, MQA with any ratio; head dimensions 8 to 256, unequal;
/// lengths 0 to 600; padding in both forms; capacities beyond the tokens; every mask; deterministic or not;
/// BSHD, SBHD, BHSD, THD, slices and expanded dout; huge negative logits; in half of the problems bias of every
/// broadcast with and without dbias, ALiBi of every form and slope shape, soft-cap, dropout with and without stored
/// values, sink and the gradient through LSE, each alone and with others. `budget` bounds the work
/// batch * nhead_q * seqlen_q * seqlen_k * (hdim_q + hdim_v) of one problem.
Case random_problem(std::uint64_t seed, std::uint64_t index, double budget = 1e8);

/// The work of a problem in the measure of random_problem's budget.
double work_of(const Case& c);

}  // namespace fmhax::verification
