#include "runtime_probe.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

constexpr std::uint32_t kOld = 0x01010101;
constexpr std::uint32_t kNew = 0x02020202;

/// Two words that a small graph sets and copies, and a count of its host function's runs.
class Trial {
 public:
  Trial() {
    FMHAX_HIP(hipStreamCreateWithFlags, &stream_, hipStreamNonBlocking);
    check_hip(hipMalloc(reinterpret_cast<void**>(&device_), 2 * sizeof(std::uint32_t)), "hipMalloc");
    check_hip(hipHostMalloc(reinterpret_cast<void**>(&host_), 2 * sizeof(std::uint32_t), hipHostMallocDefault),
              "hipHostMalloc");
    FMHAX_HIP(hipGraphCreate, &graph_, 0);
  }
  ~Trial() {
    if (executable_ != nullptr) (void)hipGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)hipGraphDestroy(graph_);
    if (host_ != nullptr) (void)hipHostFree(host_);
    if (device_ != nullptr) (void)hipFree(device_);
    if (stream_ != nullptr) (void)hipStreamDestroy(stream_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool succeeds() {
    NodeList old_list;
    fill(old_list, 0, kOld, old_count_);
    const AddedNodes nodes = add_to_graph(old_list, graph_, {});
    FMHAX_HIP(hipGraphInstantiate, &executable_, graph_, nullptr, nullptr, 0);
    if (!launch_sets(0, kOld) || old_count_ != 1) return false;
    NodeList new_list;
    fill(new_list, 1, kNew, new_count_);
    check_hip(set_parameters(new_list, nodes, executable_), "hipGraphExec*NodeSetParams");
    return launch_sets(1, kNew) && old_count_ == 1 && new_count_ == 1;
  }

 private:
  void fill(NodeList& list, std::size_t word, std::uint32_t value, std::atomic<int>& count) const {
    // Kinds in an order that makes each wait for the one before.
    list.add(NodeKind::zero, SetNode{device_ + word, value, 1});
    list.add(NodeKind::dq_dk_dv, CopyNode{host_ + word, device_ + word, sizeof(value), hipMemcpyDeviceToHost});
    list.add(NodeKind::convert_dq, HostNode{[](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &count});
  }
  bool launch_sets(std::size_t word, std::uint32_t value) {
    host_[0] = host_[1] = 0;
    FMHAX_HIP(hipGraphLaunch, executable_, stream_);
    FMHAX_HIP(hipStreamSynchronize, stream_);
    return host_[word] == value && host_[1 - word] == 0;
  }

  hipStream_t stream_ = nullptr;
  std::uint32_t* device_ = nullptr;
  std::uint32_t* host_ = nullptr;
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t executable_ = nullptr;
  std::atomic<int> old_count_{0};
  std::atomic<int> new_count_{0};
};

}  // namespace

bool node_parameters_can_be_changed() noexcept {
  static const bool can = [] {
    const char* rebuild = std::getenv("FMHAX_REBUILD_GRAPHS");
    if (rebuild != nullptr && std::strcmp(rebuild, "1") == 0) return false;
    try {
      const RelaxedCapture relaxed;
      Trial trial;
      return trial.succeeds();
    } catch (...) {
      return false;
    }
  }();
  return can;
}

}  // namespace fmhax::detail
