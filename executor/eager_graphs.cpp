#include "eager_graphs.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>
#include <variant>

#include "fmhax/error.hpp"
#include "graph_pieces.hpp"
#include "hip_calls.hpp"
#include "hip_compat.hpp"
#include "node_walk.hpp"
#include "runtime_probe.hpp"

namespace fmhax::detail {
namespace {

constinit std::atomic<bool> graphs_are_used{kChangesLeaveLaunchesAlone && kOrdersLaunchesOfAnExecutable};

bool is_several_kernels(const NodeList& list) {
  const auto is_kernel = [](const Node& node) { return std::holds_alternative<KernelNode>(node.operation); };
  return list.nodes().size() > 1 && std::all_of(list.nodes().begin(), list.nodes().end(), is_kernel);
}

const KernelLaunch& launch_of(const Node& node) { return *std::get<KernelNode>(node.operation).launch; }

bool are_equal(const KernelLaunch& a, const KernelLaunch& b) {
  return a.function == b.function && std::equal(a.grid, std::end(a.grid), b.grid) &&
         std::equal(a.block, std::end(a.block), b.block) && a.shared_bytes == b.shared_bytes &&
         a.argument_count == b.argument_count &&
         std::equal(a.argument_offset, std::end(a.argument_offset), b.argument_offset) &&
         std::memcmp(a.arguments, b.arguments, sizeof a.arguments) == 0;
}

}  // namespace

void use_eager_graphs(bool are_used) noexcept { graphs_are_used = are_used; }

struct EagerGraphs::OnStream {
  explicit OnStream(hipStream_t on) : stream(on) {}

  /// For the first call; on failure the stream's calls go on without a graph.
  void build(const NodeList& list, StagingPool& pool);
  /// False where the nodes can't be made those of the list.
  bool change(const NodeList& list);

  hipStream_t stream;
  std::mutex mutex;  ///< of what follows
  bool is_usable = true;
  bool is_fenced = true;  ///< every launch is followed by the lease's event
  std::shared_ptr<GraphPieces> pieces;
  AddedNodes nodes;
  NodeSet kinds = 0;
  std::array<KernelLaunch, NodeList::kMaxKernels> launches;  ///< as the executable has them
  StagingLease lease;                                        ///< for its event; none before the first call
};

void EagerGraphs::OnStream::build(const NodeList& list, StagingPool& pool) {
  is_usable = false;
  try {
    const RelaxedCapture relaxed;
    int priority = 0;
    FMHAX_HIP(hipStreamGetPriority, stream, &priority);
    if (priority != 0) return;
    lease = StagingLease(pool.acquire(0, {}));
    auto made = std::make_shared<GraphPieces>();
    FMHAX_HIP(hipGraphCreate, &made->graph, 0);
    nodes = add_to_graph(list, made->graph, {});
    FMHAX_HIP(hipGraphInstantiate, &made->executable, made->graph, nullptr, nullptr, 0);
    pieces = std::move(made);
  } catch (const Error&) {
    return;
  }
  kinds = list.kinds();
  for (std::size_t i = 0; i < list.nodes().size(); ++i) launches[i] = launch_of(list.nodes()[i]);
  is_usable = true;
}

bool EagerGraphs::OnStream::change(const NodeList& list) {
  if (list.kinds() != kinds) return false;
  for (std::size_t i = 0; i < list.nodes().size(); ++i) {
    const Node& node = list.nodes()[i];
    if (are_equal(launches[i], launch_of(node))) continue;
    if (set_parameters(node, nodes, pieces->executable) != hipSuccess) {
      (void)hipGetLastError();
      is_usable = false;
      return false;
    }
    launches[i] = launch_of(node);
  }
  return true;
}

EagerGraphs::EagerGraphs(StagingPool& pool) : pool_(pool) {
  // Tried now, since calls must not wait.
  if (graphs_are_used) (void)node_parameters_can_be_changed();
}

EagerGraphs::~EagerGraphs() {
  for (const std::unique_ptr<OnStream>& on : streams_) {
    if (on == nullptr || !on->lease) continue;
    on->lease->pieces = std::move(on->pieces);
    StagingBlock* block = on->lease.detach();
    if (on->is_fenced) {
      pool_.release_after_event(block);
    } else {
      pool_.give_up(block);
    }
  }
}

EagerGraphs::OnStream* EagerGraphs::of_stream(hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  for (std::unique_ptr<OnStream>& on : streams_) {
    if (on == nullptr) on = std::make_unique<OnStream>(stream);
    if (on->stream == stream) return on.get();
  }
  return nullptr;
}

bool EagerGraphs::launch(const NodeList& list, hipStream_t stream) {
  if (!graphs_are_used || !is_several_kernels(list) || !node_parameters_can_be_changed()) return false;
  OnStream* on = of_stream(stream);
  if (on == nullptr) return false;
  const std::unique_lock use(on->mutex, std::try_to_lock);
  if (!use || !on->is_usable) return false;
  if (on->pieces == nullptr) on->build(list, pool_);
  if (!on->is_usable || !on->change(list)) return false;
  on->is_fenced = false;
  FMHAX_HIP(hipGraphLaunch, on->pieces->executable, stream);
  FMHAX_HIP(hipEventRecord, on->lease->event, stream);
  on->is_fenced = true;
  return true;
}

}  // namespace fmhax::detail
