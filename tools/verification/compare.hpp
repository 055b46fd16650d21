/// @file Gradients against the fp64 reference.
#pragma once

#include <string>
#include <vector>

#include "verification/case.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// The fp64 results of a case, and what its 16-bit gradients may at best be like.
struct Expected {
  ForwardResult forward;
  BackwardResult backward;
  Gradients rounded;           ///< rounded_backward; 16-bit types only, else empty
  DenseTensor random_values;   ///< where the problem stores them; -1: any byte
  double largest_logit = 0.0;  ///< magnitude of the largest |LSE|
};

Expected expected_of(const AttentionInputs& inputs);

/// ||value - reference|| / ||reference||, Frobenius. Where the terms of the sum cancel almost wholly, so
/// that ||reference|| is below a tenth of `terms` (BackwardResult), relative to that tenth: such a
/// gradient is rounding noise around 0. NaN when any value is.
double relative_error(const DenseTensor& value, const DenseTensor& reference, double terms);

/// On logits of ordinary size 1e-5 for fp32, 2e-3 for fp16, 1e-2 for bf16. Each of the hdim_q additions that
/// fp32 makes at the magnitude L of a logit rounds by up to L * 2^-24, and so does LSE; P inherits their sum as
/// a relative error. So fp32 gets at least (2 + sqrt(hdim_q)) L 2^-24, which matters for L above 10.
double tolerance_for(const Problem& problem, double largest_logit);

struct GradientCheck {
  const char* name = "";
  double error = 0.0;
  double tolerance = 0.0;
  double rounded_error = -1.0;  ///< of rounded_backward; negative: not applied
  std::string failure;          ///< empty: in order
};

struct Comparison {
  std::vector<GradientCheck> checks;  ///< dq, dk, dv; dbias, dsink where the problem asks for them
  std::string wrong_byte;             ///< the first of the random values that is not as expected; empty: none
  bool passed() const;
  /// The first failure as text; empty when there is none.
  std::string failure() const;
};

/// Checks every gradient: no NaN or infinity anywhere; exactly 0 in rows of no sequence, in query rows that
/// see no key, in keys that nothing sees and in what of dbias no visible pair belongs to; error within tolerance_for;
/// and for 16-bit types at most twice the error of rounded_backward (or a quarter of the tolerance, whichever is
/// larger). Where rounded_backward itself misses the tolerance, which takes a handful of rows whose dP - D nearly
/// cancels, o as rounded by the forward does not hold the answer, and the tolerance is 1.25 times that error. What
/// rounded_backward gives as infinity, beyond fp16's range, may be that infinity.
Comparison compare(const Case& c, const Gradients& result, const Expected& expected);

/// True when both hold the same bits (for values that came from one dtype), -0 unlike +0, NaN like NaN.
bool same_bits(const Gradients& a, const Gradients& b);

}  // namespace fmhax::verification
