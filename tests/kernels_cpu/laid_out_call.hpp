/// @file A backward call laid out by hand: tensors with unusual strides, NaN in everything that must not be
/// read, poisoned outputs, metadata written without the executor, and the gradients in fp64 by plain loops.
#pragma once

#include <cstdint>
#include <vector>

#include "bodies.hpp"
#include "fmhax/contract/params.hpp"
#include "isa.hpp"
#include "tensor.hpp"

namespace fmhax::cpu::test {

/// Physical and logical length of one sequence on both sides.
struct Lengths {
  std::int32_t q = 0;
  std::int32_t k = 0;
  std::int32_t logical_q = -1;  ///< -1: as the physical one
  std::int32_t logical_k = -1;
};

enum class Kernels { general, persistent, direct };

struct CallSpec {
  Problem problem{};             ///< batch, maxima and totals are filled in from the lengths unless they are set
  std::vector<Lengths> lengths;  ///< batch mode: all with the same physical lengths
  Kernels kernels = Kernels::general;
  std::int64_t workers = 3;     ///< blocks of a persistent kernel
  std::int64_t spare_rows = 0;  ///< group mode: capacity beyond the last sequence
  float unseen_lse = 0.0F;      ///< lse of rows that see no key
  float logit_shift = 0.0F;     ///< moves all logits of a row by about this much
  bool has_expanded_dout = false;
};

class LaidOutCall {
 public:
  explicit LaidOutCall(CallSpec spec, std::uint32_t seed = 1);

  /// Poisons outputs and workspace, then runs dot_do_o, dq_dk_dv, convert_dq, the blocks of each dealt to
  /// `threads` threads.
  void run(Isa isa, int threads = 2);
  /// Outputs become wrong values; dq_acc zero where the kernels ask for that, else NaN.
  void poison();
  void run_forward(Isa isa);

  /// Relative error (Frobenius) of each gradient against fp64; infinite where a row that has no visible pair is not 0.
  double dq_error() const { return error(dq_, want_dq_, Side::q, spec_.problem.nhead_q, spec_.problem.hdim_q); }
  double dk_error() const { return error(dk_, want_dk_, Side::k, spec_.problem.nhead_k, spec_.problem.hdim_q); }
  double dv_error() const { return error(dv_, want_dv_, Side::k, spec_.problem.nhead_k, spec_.problem.hdim_v); }
  double worst_error() const;
  double o_error() const { return error(o_out_, want_o_, Side::q, spec_.problem.nhead_q, spec_.problem.hdim_v); }
  double lse_error() const;
  /// True when every element of every gradient within the capacity is NaN.
  bool gradients_are_nan() const;
  /// The same of o and lse after run_forward().
  bool outputs_are_nan() const;
  /// Every element of dq, dk, dv within the capacity.
  std::vector<double> gradient_values() const;

  KernelParams params();
  CallStatus status{};
  std::vector<std::int32_t> seqstart_q, seqstart_k, seqlen_q, seqlen_k, cu_seqlen_q, cu_seqlen_k;
  std::vector<std::int32_t> nsplits;

 private:
  enum class Side { q, k };
  struct Place {
    std::int64_t batch = 0, row = 0;  // of the first row
    std::int64_t physical = 0, logical = 0;
  };
  Place place(Side side, std::size_t sequence) const;
  std::size_t index(Side side, std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t heads) const;
  void fill_inputs(std::uint32_t seed);
  void compute_sequence(std::size_t sequence);
  void lay_out_workspace();
  void collect(const Tensor& t, Side side, std::int64_t heads, std::int64_t hdim, std::vector<double>& values) const;
  double error(const Tensor& got, const std::vector<double>& want, Side side, std::int64_t heads,
               std::int64_t hdim) const;

  CallSpec spec_;
  Tensor q_, k_, v_, o_, dout_, dq_, dk_, dv_, o_out_;
  std::vector<float> lse_, d_, lse_out_;
  std::vector<double> want_dq_, want_dk_, want_dv_, want_o_, want_lse_;
  std::vector<char> is_seen_q_, is_seen_k_;  // rows with any visible pair; the others' gradients are exactly 0
  std::vector<std::int64_t> dq_acc_offsets_;
  std::vector<float> dq_acc_;
  bool needs_zero_ = false;
};

}  // namespace fmhax::cpu::test
