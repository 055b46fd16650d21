#include "declared_ranges.hpp"

#include <hiphost/ranges.hpp>

#include <algorithm>
#include <cstdlib>

#include "fmhax/contract/workspace.hpp"

namespace fmhax::cpu {
namespace {

using hiphost::RangeSink;

enum class Use { reads, writes };

/// Larger accumulators than any test has: such a number is not a size but poison, or metadata that were never written.
constexpr std::int64_t kLargestPlausible = std::int64_t{1} << 40;

/// Declares what one call touches. Rows that belong to no sequence count as touched: an order costs them nothing.
class Declarer {
 public:
  Declarer(const KernelParams& params, RangeSink& sink) : params_(params), problem_(params.problem), sink_(sink) {}

  void q_rows(const TensorRef& tensor, std::int64_t hdim, Use use) const {
    rows(tensor, {tensor_rows(problem_.total_q, problem_.max_seqlen_q), problem_.nhead_q},
         hdim * element_size(problem_.dtype), use);
  }
  void k_rows(const TensorRef& tensor, std::int64_t hdim, Use use) const {
    rows(tensor, {tensor_rows(problem_.total_k, problem_.max_seqlen_k), problem_.nhead_k},
         hdim * element_size(problem_.dtype), use);
  }
  /// lse and d.
  void row_values(const TensorRef& tensor, Use use) const {
    rows(tensor, {tensor_rows(problem_.total_q, problem_.max_seqlen_q), problem_.nhead_q}, sizeof(float), use);
  }

  void lengths() const {
    const SequenceLengths& all = params_.lengths;
    const std::int64_t count = problem_.batch + 1;
    if (problem_.is_group_mode) {
      array(all.seqstart_q, count);
      array(all.seqstart_k, count);
    }
    if (problem_.logical_lengths == LogicalLengths::per_sequence) {
      array(all.seqlen_q, problem_.batch);
      array(all.seqlen_k, problem_.batch);
    } else if (problem_.logical_lengths == LogicalLengths::cumulative) {
      array(all.cu_seqlen_q, count);
      array(all.cu_seqlen_k, count);
    }
  }

  void metadata() const {
    if (params_.nsplits == nullptr) return;
    array(params_.nsplits, problem_.is_group_mode && problem_.is_deterministic ? problem_.batch : 1);
    if (problem_.is_group_mode) array(params_.dq_acc_offsets, problem_.batch + 1);
  }

  void dq_acc(Use use) const {
    if (params_.nsplits == nullptr || params_.nsplits[0] < 0) return;
    const std::int64_t elements = problem_.is_group_mode ? params_.dq_acc_offsets[problem_.batch]
                                                         : problem_.batch * problem_.nhead_q * params_.nsplits[0] *
                                                               problem_.max_seqlen_q * problem_.hdim_q;
    if (elements <= 0 || elements > kLargestPlausible) return;
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
    if (use == Use::reads) {
      sink_.read(params_.dq_acc, bytes);
    } else {
      sink_.accumulate(params_.dq_acc, bytes);
    }
  }

  /// What logits and probabilities are made from, and the random values that come with them.
  void features() const {
    row_by_key(params_.bias, batch_of_tensors(), problem_.nhead_q, element_size(problem_.dtype), Use::reads);
    if (problem_.stores_random_values) {
      row_by_key(params_.random_values, batch_of_tensors(), problem_.nhead_q, 1, Use::writes);
    }
    for (std::int64_t b = 0; b < (params_.alibi_stride_batch > 0 ? problem_.batch : 1); ++b) {
      if (params_.alibi_slopes != nullptr) {
        array(params_.alibi_slopes + b * params_.alibi_stride_batch, problem_.nhead_q);
      }
    }
    array(params_.dropout.seed_pointer, 1);
    array(params_.dropout.offset_pointer, 1);
  }
  void dlse() const {
    if (problem_.has_dlse) row_values(params_.dlse, Use::reads);
  }
  void sink() const { array(params_.sink, problem_.nhead_q); }
  void dbias() const {
    row_by_key(params_.dbias, params_.dbias_batch, params_.dbias_nhead, element_size(problem_.dtype), Use::writes);
  }
  void dsink() const {
    if (params_.dsink != nullptr) {
      sink_.write(params_.dsink, static_cast<std::size_t>(problem_.nhead_q) * sizeof(float));
    }
  }

  std::int64_t batch_of_tensors() const { return problem_.is_group_mode ? 1 : problem_.batch; }

  /// Rows of max_seqlen_k elements of `size` bytes; an axis of stride 0 is declared once.
  void row_by_key(const TensorRef& tensor, std::int64_t batch, std::int64_t heads, std::int64_t size, Use use) const {
    if (tensor.data == nullptr) return;
    const auto row_bytes = static_cast<std::size_t>(problem_.max_seqlen_k * size);
    for (std::int64_t b = 0; b < (tensor.stride_batch == 0 ? std::min<std::int64_t>(batch, 1) : batch); ++b) {
      for (std::int64_t h = 0; h < (tensor.stride_nhead == 0 ? 1 : heads); ++h) {
        for (std::int64_t row = 0; row < tensor_rows(problem_.total_q, problem_.max_seqlen_q); ++row) {
          auto* begin = static_cast<std::byte*>(tensor.data) +
                        size * (b * tensor.stride_batch + row * tensor.stride_seqlen + h * tensor.stride_nhead);
          if (use == Use::reads) {
            sink_.read(begin, row_bytes);
          } else {
            sink_.write(begin, row_bytes);
          }
        }
      }
    }
  }

  void status() const {
    if (params_.status != nullptr) sink_.write(params_.status, sizeof(CallStatus));
  }

 private:
  struct Extent {
    std::int64_t rows;
    std::int64_t heads;
  };

  std::int64_t tensor_rows(std::int64_t total, std::int64_t max_seqlen) const {
    return problem_.is_group_mode ? total : max_seqlen;
  }

  template <class T>
  void array(const T* data, std::int64_t count) const {
    if (data != nullptr) sink_.read(data, static_cast<std::size_t>(count) * sizeof(T));
  }

  /// Row by row, since q, k and v may be slices of one tensor; those with the smaller stride follow one another, so
  /// that ranges without a gap between them can be joined.
  void rows(const TensorRef& tensor, Extent extent, std::int64_t row_bytes, Use use) const {
    if (tensor.data == nullptr) return;
    const std::int64_t size = row_bytes == sizeof(float) ? row_bytes : element_size(problem_.dtype);
    const bool heads_inside = std::abs(tensor.stride_nhead) <= std::abs(tensor.stride_seqlen);
    const std::int64_t outer = heads_inside ? extent.rows : extent.heads;
    const std::int64_t inner = heads_inside ? extent.heads : extent.rows;
    for (std::int64_t b = 0; b < (problem_.is_group_mode ? 1 : problem_.batch); ++b) {
      for (std::int64_t i = 0; i < outer; ++i) {
        for (std::int64_t j = 0; j < inner; ++j) {
          const std::int64_t row = heads_inside ? i : j;
          const std::int64_t head = heads_inside ? j : i;
          auto* begin = static_cast<std::byte*>(tensor.data) +
                        size * (b * tensor.stride_batch + row * tensor.stride_seqlen + head * tensor.stride_nhead);
          if (use == Use::reads) {
            sink_.read(begin, static_cast<std::size_t>(row_bytes));
          } else {
            sink_.write(begin, static_cast<std::size_t>(row_bytes));
          }
        }
      }
    }
  }

  const KernelParams& params_;
  const Problem& problem_;
  RangeSink& sink_;
};

const KernelParams& params_of(const void* const* args) { return *static_cast<const KernelParams*>(args[0]); }

void forward_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.q_rows(params.q, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.k, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.v, params.problem.hdim_v, Use::reads);
  declare.features();
  declare.sink();
  declare.q_rows(params.o, params.problem.hdim_v, Use::writes);
  declare.row_values(params.lse, Use::writes);
}

void dot_do_o_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.q_rows(params.o, params.problem.hdim_v, Use::reads);
  declare.q_rows(params.dout, params.problem.hdim_v, Use::reads);
  declare.dlse();
  declare.row_values(params.d, Use::writes);
}

void gradient_ranges(const KernelParams& params, const Declarer& declare) {
  declare.lengths();
  declare.q_rows(params.q, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.k, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.v, params.problem.hdim_v, Use::reads);
  declare.q_rows(params.dout, params.problem.hdim_v, Use::reads);
  declare.row_values(params.lse, Use::reads);
  declare.features();
  declare.k_rows(params.dk, params.problem.hdim_q, Use::writes);
  declare.k_rows(params.dv, params.problem.hdim_v, Use::writes);
}

void dq_dk_dv_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  gradient_ranges(params, declare);
  declare.row_values(params.d, Use::reads);
  declare.metadata();
  declare.dq_acc(Use::writes);
}

void direct_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  gradient_ranges(params, declare);
  declare.q_rows(params.o, params.problem.hdim_v, Use::reads);
  declare.dlse();
  declare.q_rows(params.dq, params.problem.hdim_q, Use::writes);
  declare.status();
}

void prepare_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.status();
  const auto* metadata = static_cast<const std::byte*>(params.metadata);
  sink.write(params.metadata, static_cast<std::size_t>(static_cast<const std::byte*>(params.dq_acc) - metadata));
  if (params.zero_dq_acc) sink.write(params.dq_acc, static_cast<std::size_t>(params.dq_acc_bytes));
}

void prepare_and_dot_ranges(const void* const* args, RangeSink& sink) {
  prepare_ranges(args, sink);
  dot_do_o_ranges(args, sink);
}

void convert_dq_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.metadata();
  declare.dq_acc(Use::reads);
  declare.q_rows(params.dq, params.problem.hdim_q, Use::writes);
}

void dbias_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.metadata();
  declare.q_rows(params.q, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.k, params.problem.hdim_q, Use::reads);
  declare.k_rows(params.v, params.problem.hdim_v, Use::reads);
  declare.q_rows(params.dout, params.problem.hdim_v, Use::reads);
  declare.row_values(params.lse, Use::reads);
  declare.row_values(params.d, Use::reads);
  declare.row_by_key(params.bias, declare.batch_of_tensors(), params.problem.nhead_q,
                     element_size(params.problem.dtype), Use::reads);
  declare.dbias();
}

void dsink_ranges(const void* const* args, RangeSink& sink) {
  const KernelParams& params = params_of(args);
  const Declarer declare(params, sink);
  declare.lengths();
  declare.metadata();
  declare.row_values(params.lse, Use::reads);
  declare.row_values(params.d, Use::reads);
  declare.sink();
  declare.dsink();
}

hiphost::KernelDeclaration declaration(KernelRole role, bool writes_dq_directly) {
  switch (role) {
    case KernelRole::forward:
      return {"forward", forward_ranges, true};
    case KernelRole::dot_do_o:
      return {"dot_do_o", dot_do_o_ranges, true};
    case KernelRole::dq_dk_dv:
      return {"dq_dk_dv", writes_dq_directly ? direct_ranges : dq_dk_dv_ranges, true};
    case KernelRole::prepare:
      return {"prepare", prepare_ranges, true};
    case KernelRole::prepare_and_dot:
      return {"prepare", prepare_and_dot_ranges, true};  // as its node is called
    case KernelRole::dbias:
      return {"dbias", dbias_ranges, true};
    case KernelRole::dsink:
      return {"dsink", dsink_ranges, true};
    case KernelRole::convert_dq:
      break;
  }
  return {"convert_dq", convert_dq_ranges, true};
}

}  // namespace

bool declare_ranges(std::span<const KernelEntry> entries) {
  DeviceTraits traits;
  traits.multiprocessors = 1;
  KernelParams params;
  params.problem.batch = params.problem.nhead_q = params.problem.nhead_k = 1;
  params.problem.max_seqlen_q = params.problem.max_seqlen_k = 1;
  params.problem.has_dbias = params.problem.has_sink = true;
  for (const KernelEntry& entry : entries) {
    const bool writes_dq_directly = entry.workspace_spec(params.problem, traits).writes_dq_directly;
    for (const KernelRole role : kKernelRoles) {
      KernelLaunch launch;
      if (!entry.form_launch(role, traits, params, launch)) continue;
      hiphost::declare_kernel(launch.function, declaration(role, writes_dq_directly));
    }
  }
  return true;
}

}  // namespace fmhax::cpu
