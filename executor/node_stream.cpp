#include "hip_calls.hpp"
#include "node_walk.hpp"
#include "side_lane.hpp"

namespace fmhax::detail {
namespace {

struct Enqueue {
  hipStream_t stream;

  void operator()(std::monostate) const {}
  void operator()(const SetNode& node) const {
    if (node.value == 0) {
      FMHAX_HIP(hipMemsetAsync, node.destination, 0, node.words * sizeof(std::uint32_t), stream);
    } else {
      FMHAX_HIP(hipMemsetD32Async, static_cast<hipDeviceptr_t>(node.destination), static_cast<int>(node.value),
                node.words, stream);
    }
  }
  void operator()(const CopyNode& node) const {
    FMHAX_HIP(hipMemcpyAsync, node.destination, node.source, node.bytes, node.kind, stream);
  }
  void operator()(const HostNode& node) const { FMHAX_HIP(hipLaunchHostFunc, stream, node.function, node.user_data); }
  void operator()(const KernelNode& node) const { launch_kernel(*node.launch, stream); }
};

/// The side stream's part of one call: forked before its first node, joined before the first that waits for it.
class SideLine {
 public:
  SideLine(hipStream_t stream, int device) : stream_(stream), device_(device) {}
  ~SideLine() {
    if (!forked_ || joined_) return;
    const SideLane& lane = *lane_;
    if (hipEventRecord(lane.join, lane.stream) == hipSuccess) (void)hipStreamWaitEvent(stream_, lane.join, 0);
  }
  SideLine(const SideLine&) = delete;
  SideLine& operator=(const SideLine&) = delete;

  hipStream_t forked_stream() {
    if (!forked_) {
      lane_ = SideLaneLock(device_);
      FMHAX_HIP(hipEventRecord, lane_->fork, stream_);
      FMHAX_HIP(hipStreamWaitEvent, lane_->stream, lane_->fork, 0);
      forked_ = true;
    }
    return lane_->stream;
  }
  void join() {
    if (!forked_ || joined_) return;
    FMHAX_HIP(hipEventRecord, lane_->join, lane_->stream);
    FMHAX_HIP(hipStreamWaitEvent, stream_, lane_->join, 0);
    joined_ = true;
  }

 private:
  hipStream_t stream_;
  int device_;
  SideLaneLock lane_;
  bool forked_ = false;
  bool joined_ = false;
};

}  // namespace

void launch_kernel(const KernelLaunch& launch, hipStream_t stream) {
  std::array<void*, KernelLaunch::kMaxArguments> arguments{};
  for (std::uint32_t i = 0; i < launch.argument_count; ++i) {
    // HIP takes pointers to mutable arguments and only reads them.
    arguments[i] = const_cast<unsigned char*>(launch.arguments + launch.argument_offset[i]);
  }
  FMHAX_HIP(hipLaunchKernel, launch.function, dim3(launch.grid[0], launch.grid[1], launch.grid[2]),
            dim3(launch.block[0], launch.block[1], launch.block[2]), arguments.data(), launch.shared_bytes, stream);
}

void play_on_stream(const NodeList& list, hipStream_t stream, int device) {
  SideLine side(stream, device);
  for (const Node& node : list.nodes()) {
    const bool on_side = contains(kHostChain, node.kind);
    if (!on_side && (node.dependencies & kHostChain) != 0) side.join();
    std::visit(Enqueue{on_side ? side.forked_stream() : stream}, node.operation);
  }
  side.join();
}

}  // namespace fmhax::detail
