#include "fmhax/graph.hpp"

#include <array>
#include <mutex>
#include <utility>

#include "call_check.hpp"
#include "enqueue.hpp"
#include "executor_state.hpp"
#include "graph_pieces.hpp"
#include "hip_calls.hpp"
#include "hip_compat.hpp"
#include "node_walk.hpp"
#include "runtime_probe.hpp"

namespace fmhax {
class Graph::Impl {
 public:
  Impl(std::shared_ptr<const detail::ExecutorState> state, CallArguments arguments);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void launch(hipStream_t stream);
  void update(CallArguments arguments);
  CallStatus status() const noexcept;
  Counters counters() const;
  hipGraph_t native() const;
  std::string dot() const {
    const std::lock_guard lock(mutex_);
    return dot_;
  }

 private:
  /// Completes the arguments with a status and a workspace, and checks them.
  void complete(CallArguments& arguments);
  void provide_workspace(CallArguments& arguments);
  /// Builds and instantiates; on failure `pieces` holds what there is.
  void build(const detail::NodeList& list, detail::GraphPieces& pieces, detail::AddedNodes& nodes) const;
  /// False when the executable has to be built anew.
  bool change_in_place(const detail::NodeList& list);
  /// Gives the block, with the pieces, back to the pool for when its event has passed.
  void retire(detail::StagingLease lease, std::shared_ptr<void> pieces);

  std::shared_ptr<const detail::ExecutorState> state_;
  const MetadataPath path_;
  mutable std::mutex mutex_;
  StatusBuffer status_;
  std::shared_ptr<void> workspace_;  ///< the graph's own; freed with the last pieces that use it
  std::shared_ptr<detail::GraphPieces> pieces_;
  detail::AddedNodes nodes_;
  detail::StagingLease lease_;  ///< its event is recorded after every launch
  bool launched_ = false;       ///< since lease_ was taken
  bool is_fenced_ = true;       ///< every launch is followed by its event
  bool is_whole_ = true;        ///< no update failed between one node and the next
  /// Staging and pieces of before an update, until a launch follows that waits for theirs.
  detail::StagingLease former_lease_;
  std::shared_ptr<detail::GraphPieces> former_pieces_;
  Counters counters_;
  std::string dot_;
};

Graph::Impl::Impl(std::shared_ptr<const detail::ExecutorState> state, CallArguments arguments)
    : state_(std::move(state)), path_(state_->metadata_path(true)) {
  const detail::DeviceGuard guard(state_->traits.device);
  const detail::RelaxedCapture relaxed;
  state_->pool.collect();
  complete(arguments);
  (void)detail::node_parameters_can_be_changed();  // tried now, since update() must not wait
  lease_ = detail::take_staging(*state_, arguments, detail::CallPart::all, path_);
  detail::NodeList list;
  state_->build_node_list(arguments, {.path = path_, .staging = lease_->memory}, list);
  auto pieces = std::make_shared<detail::GraphPieces>();
  build(list, *pieces, nodes_);
  pieces_ = std::move(pieces);
  dot_ = detail::dot(list);
}

void Graph::Impl::complete(CallArguments& arguments) {
  if (!arguments.status) arguments.status = status_ ? status_ : StatusBuffer::create();
  const std::int64_t needed = state_->workspace_bytes;
  const bool own_workspace = arguments.workspace == nullptr && needed > 0;
  detail::check_call(*state_, arguments, {.workspace_bytes = own_workspace ? 0 : needed});
  if (own_workspace) {
    provide_workspace(arguments);
    detail::check_call(*state_, arguments, {.workspace_bytes = needed});
  }
  status_ = arguments.status;
}

void Graph::Impl::provide_workspace(CallArguments& arguments) {
  if (workspace_ == nullptr) {
    const auto bytes = static_cast<std::size_t>(state_->workspace_bytes);
    if (state_->options.workspace_alloc) {
      void* memory = state_->options.workspace_alloc(bytes, false);
      if (memory == nullptr) {
        throw Error(ErrorCode::out_of_memory,
                    "workspace_alloc returned no memory for " + std::to_string(bytes) + " bytes");
      }
      workspace_ = std::shared_ptr<void>(memory, [](void*) {});  // the caller's
    } else {
      void* memory = nullptr;
      FMHAX_HIP(hipMalloc, &memory, bytes);
      workspace_ = std::shared_ptr<void>(memory, [](void* pointer) { (void)hipFree(pointer); });
    }
  }
  arguments.workspace = workspace_.get();
  arguments.workspace_bytes = state_->workspace_bytes;
}

void Graph::Impl::build(const detail::NodeList& list, detail::GraphPieces& pieces, detail::AddedNodes& nodes) const {
  FMHAX_HIP(hipGraphCreate, &pieces.graph, 0);
  nodes = detail::add_to_graph(list, pieces.graph, {});
  FMHAX_HIP(hipGraphInstantiate, &pieces.executable, pieces.graph, nullptr, nullptr, 0);
  pieces.workspace = workspace_;
}

void Graph::Impl::retire(detail::StagingLease lease, std::shared_ptr<void> pieces) {
  detail::StagingBlock* block = lease.detach();
  block->pieces = std::move(pieces);
  state_->pool.release_after_event(block);
}

Graph::Impl::~Impl() {
  if (!is_fenced_) {
    // No event follows the last launch: the blocks are given up with all that they carry.
    if (former_lease_) {
      former_lease_->pieces = former_pieces_;
      state_->pool.give_up(former_lease_.detach());
    }
    lease_->pieces = pieces_;
    state_->pool.give_up(lease_.detach());
    return;
  }
  // Launches may be in flight: the block whose event follows the last one carries everything until it has passed.
  if (former_lease_) retire(std::move(former_lease_), former_pieces_ != nullptr ? former_pieces_ : pieces_);
  if (launched_) {
    retire(std::move(lease_), std::move(pieces_));
    return;
  }
  lease_->pieces = std::move(pieces_);  // for collect(), since freeing waits for the device
}

void Graph::Impl::launch(hipStream_t stream) {
  const detail::DeviceGuard guard(detail::check_stream(*state_, stream), state_->traits.device);
  detail::check_not_capturing(stream);
  const std::lock_guard lock(mutex_);
  if (!is_whole_)
    throw Error(ErrorCode::hip, "an update of this graph failed half-way; update it again before a launch");
  if (former_lease_) FMHAX_HIP(hipStreamWaitEvent, stream, former_lease_->event, 0);
  if (launched_ && !detail::kOrdersLaunchesOfAnExecutable) FMHAX_HIP(hipStreamWaitEvent, stream, lease_->event, 0);
  FMHAX_HIP(hipGraphLaunch, pieces_->executable, stream);
  launched_ = true;
  is_fenced_ = false;
  FMHAX_HIP(hipEventRecord, lease_->event, stream);
  is_fenced_ = true;
  ++counters_.launches;
  if (former_lease_) retire(std::move(former_lease_), std::move(former_pieces_));
}

void Graph::Impl::update(CallArguments arguments) {
  const detail::DeviceGuard guard(state_->traits.device);
  const detail::RelaxedCapture relaxed;
  const std::lock_guard lock(mutex_);
  const StatusBuffer old_status = status_;
  complete(arguments);
  status_ = old_status;  // until nothing can fail any more

  detail::StagingLease lease = detail::take_staging(*state_, arguments, detail::CallPart::all, path_);
  detail::NodeList list;
  state_->build_node_list(arguments, {.path = path_, .staging = lease->memory}, list);
  std::shared_ptr<detail::GraphPieces> rebuilt;
  if (!change_in_place(list)) {
    rebuilt = std::make_shared<detail::GraphPieces>();
    detail::AddedNodes nodes;
    build(list, *rebuilt, nodes);
    nodes_ = nodes;
  }
  // Launches of before may still run from the old staging, and from the old pieces.
  if (launched_) former_lease_ = std::move(lease_);
  if (rebuilt != nullptr && former_lease_ && former_pieces_ == nullptr) former_pieces_ = std::move(pieces_);
  launched_ = false;
  lease_ = std::move(lease);
  if (rebuilt != nullptr) pieces_ = rebuilt;
  is_whole_ = true;
  ++(rebuilt != nullptr ? counters_.rebuilds : counters_.updates);
  status_ = arguments.status;
  dot_ = detail::dot(list);
}

bool Graph::Impl::change_in_place(const detail::NodeList& list) {
  if (!is_whole_ || !detail::node_parameters_can_be_changed()) return false;
  is_whole_ = false;  // until the update is through
  if (detail::set_parameters(list, nodes_, pieces_->executable) == hipSuccess &&
      detail::set_parameters(list, nodes_, nullptr) == hipSuccess) {
    return true;
  }
  (void)hipGetLastError();
  return false;
}

CallStatus Graph::Impl::status() const noexcept {
  const std::lock_guard lock(mutex_);
  return status_.read();
}

Graph::Counters Graph::Impl::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

hipGraph_t Graph::Impl::native() const {
  const std::lock_guard lock(mutex_);
  return pieces_->graph;
}

Graph::Graph(const Executor& executor, const CallArguments& arguments)
    : impl_(std::make_unique<Impl>(executor.state(), arguments)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::launch(hipStream_t stream) { impl_->launch(stream); }
void Graph::update(const CallArguments& arguments) { impl_->update(arguments); }
Graph::Counters Graph::counters() const { return impl_->counters(); }
CallStatus Graph::status() const noexcept { return impl_->status(); }
hipGraph_t Graph::native() const noexcept { return impl_->native(); }
std::string Graph::dot() const { return impl_->dot(); }

}  // namespace fmhax
