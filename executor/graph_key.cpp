#include "graph_key.hpp"

#include <functional>

namespace fmhax::detail {
namespace {

/// Mixes values one after another into one number.
class Mixer {
 public:
  template <class... Values>
  void add(const Values&... values) {
    (mix(std::hash<Values>{}(values)), ...);
  }
  std::size_t result() const { return state_; }

 private:
  void mix(std::size_t value) {
    // The multiplier of Knuth's multiplicative hashing for 64 bits, floor(2^64 / golden ratio), made odd.
    state_ = (state_ ^ value) * 0x9E3779B97F4A7C15U;
    state_ ^= state_ >> 32;
  }
  std::size_t state_ = 0;
};

}  // namespace

PlanKey::PlanKey(const ExecutorState& state)
    : problem(state.problem),
      device(state.traits.device),
      kernel(state.choice.entry().name),
      keepalive(state.options.keepalive),
      metadata_path(state.options.metadata_path),
      max_splits(state.spec.max_splits),
      allocators(state.options.workspace_alloc || state.options.pinned_host_alloc ? &state : nullptr) {}

std::size_t GraphKeyHash::operator()(const GraphKey& key) const noexcept {
  // Enough to tell calls apart; equality looks at the rest.
  Mixer mixer;
  const Problem& p = key.plan.problem;
  mixer.add(p.batch, p.nhead_q, p.max_seqlen_q, p.max_seqlen_k, p.total_q, key.plan.device, key.plan.allocators);
  const CallArguments& a = key.arguments;
  mixer.add(a.q.data, a.k.data, a.v.data, a.dout.data, a.dq.data, a.dk.data, a.dv.data);
  mixer.add(a.lengths.seqstart_q, a.lengths.seqstart_k, a.workspace, a.scale, a.q.stride_seqlen);
  return mixer.result();
}

}  // namespace fmhax::detail
