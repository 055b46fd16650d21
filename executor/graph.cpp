#include "fmhax/graph.hpp"

#include <array>
#include <mutex>
#include <utility>

#include "call_check.hpp"
#include "enqueue.hpp"
#include "executor_state.hpp"
#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax {
namespace detail {
namespace {

/// What a graph is made of besides its staging; let go when its last launch has passed.
struct GraphPieces {
  GraphPieces() = default;
  GraphPieces(const GraphPieces&) = delete;
  GraphPieces& operator=(const GraphPieces&) = delete;
  ~GraphPieces() {
    if (executable != nullptr) (void)hipGraphExecDestroy(executable);
    if (graph != nullptr) (void)hipGraphDestroy(graph);
    if (workspace != nullptr) (void)hipFree(workspace);
  }

  hipGraph_t graph = nullptr;
  hipGraphExec_t executable = nullptr;
  void* workspace = nullptr;                 ///< the graph's own
  std::shared_ptr<void> pinned_by_caller{};  ///< from pinned_host_alloc
};

}  // namespace
}  // namespace detail

class Graph::Impl {
 public:
  Impl(std::shared_ptr<const detail::ExecutorState> state, CallArguments arguments);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void launch(hipStream_t stream);
  CallStatus status() const noexcept { return status_.read(); }
  hipGraph_t native() const noexcept { return pieces_->graph; }
  std::string dot() const { return dot_; }

 private:
  void provide_workspace(CallArguments& arguments);

  std::shared_ptr<const detail::ExecutorState> state_;
  StatusBuffer status_;
  std::shared_ptr<detail::GraphPieces> pieces_ = std::make_shared<detail::GraphPieces>();
  detail::StagingLease lease_;  ///< its event is recorded after every launch
  std::mutex mutex_;
  bool launched_ = false;
  std::string dot_;
};

Graph::Impl::Impl(std::shared_ptr<const detail::ExecutorState> state, CallArguments arguments)
    : state_(std::move(state)) {
  const detail::DeviceGuard guard(state_->traits.device);
  const detail::RelaxedCapture relaxed;
  state_->pool.collect();
  if (arguments.status) {
    status_ = arguments.status;
  } else {
    status_ = arguments.status = StatusBuffer::create();
  }
  const bool own_workspace = arguments.workspace == nullptr && state_->workspace_bytes > 0;
  detail::check_call(*state_, arguments, {.workspace_bytes = own_workspace ? 0 : state_->workspace_bytes});
  if (own_workspace) {
    provide_workspace(arguments);
    detail::check_call(*state_, arguments, {.workspace_bytes = state_->workspace_bytes});
  }

  lease_ = detail::take_staging(*state_, arguments, detail::CallPart::all);
  detail::NodeList list;
  state_->build_node_list(arguments, detail::CallPart::all, lease_->memory,
                          state_->workspace_bytes - state_->metadata_bytes, list);
  FMHAX_HIP(hipGraphCreate, &pieces_->graph, 0);
  detail::add_to_graph(list, pieces_->graph, {});
  FMHAX_HIP(hipGraphInstantiate, &pieces_->executable, pieces_->graph, nullptr, nullptr, 0);
  dot_ = detail::dot(list);
}

void Graph::Impl::provide_workspace(CallArguments& arguments) {
  const auto bytes = static_cast<std::size_t>(state_->workspace_bytes);
  if (state_->options.workspace_alloc) {
    arguments.workspace = state_->options.workspace_alloc(bytes, false);
    if (arguments.workspace == nullptr) {
      throw Error(ErrorCode::out_of_memory,
                  "workspace_alloc returned no memory for " + std::to_string(bytes) + " bytes");
    }
  } else {
    FMHAX_HIP(hipMalloc, &pieces_->workspace, bytes);
    arguments.workspace = pieces_->workspace;
  }
  arguments.workspace_bytes = state_->workspace_bytes;
}

Graph::Impl::~Impl() {
  if (!launched_) return;  // the members let go of everything at once
  // A launch may be in flight: the block carries the pieces until its event has passed.
  detail::StagingBlock* block = lease_.detach();
  pieces_->pinned_by_caller = std::move(block->external);
  block->external = std::move(pieces_);
  state_->pool.release_after_event(block);
}

void Graph::Impl::launch(hipStream_t stream) {
  detail::check_stream(*state_, stream);
  const detail::DeviceGuard guard(state_->traits.device);
  if (detail::capture_of(stream).active) {
    throw Error(ErrorCode::invalid_argument,
                "stream is capturing; record the call with Executor::enqueue, or add Graph::native() as a child node");
  }
  const std::lock_guard lock(mutex_);
  if (launched_) FMHAX_HIP(hipStreamWaitEvent, stream, lease_->event, 0);
  FMHAX_HIP(hipGraphLaunch, pieces_->executable, stream);
  launched_ = true;
  FMHAX_HIP(hipEventRecord, lease_->event, stream);
}

Graph::Graph(const Executor& executor, const CallArguments& arguments)
    : impl_(std::make_unique<Impl>(executor.state(), arguments)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::launch(hipStream_t stream) { impl_->launch(stream); }
CallStatus Graph::status() const noexcept { return impl_->status(); }
hipGraph_t Graph::native() const noexcept { return impl_->native(); }
std::string Graph::dot() const { return impl_->dot(); }

}  // namespace fmhax
