/// @file The problem to be computed, its check, and its printed form.
#pragma once

#include <string>

#include "fmhax/contract/problem.hpp"

namespace fmhax {

/// Throws Error(invalid_argument) naming the first field that is wrong. What is checked does not depend
/// on which kernels exist.
void validate(const Problem& problem);

/// One line, e.g. "bf16 group batch=8 nhead=16/4 hdim=128/64 max_seqlen=512/512 total=1507/1507 causal".
std::string to_string(const Problem& problem);
std::string to_string(const Mask& mask);
const char* to_string(DataType dtype) noexcept;

}  // namespace fmhax
