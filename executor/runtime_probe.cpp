#include "runtime_probe.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

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

  /// The host function runs with every launch.
  bool runs_host_functions() {
    instantiate();
    return old_count_ == 0 && launch_sets(0, kOld) && old_count_ == 1 && launch_sets(0, kOld) && old_count_ == 2;
  }

  /// Changed nodes do what they were changed to.
  bool changes_nodes() {
    const AddedNodes nodes = instantiate();
    if (!launch_sets(0, kOld) || old_count_ != 1) return false;
    NodeList new_list;
    fill(new_list, 1, kNew, new_count_);
    check_hip(set_parameters(new_list, nodes, executable_), "hipGraphExec*NodeSetParams");
    return launch_sets(1, kNew) && old_count_ == 1 && new_count_ == 1;
  }

 private:
  AddedNodes instantiate() {
    NodeList list;
    fill(list, 0, kOld, old_count_);
    const AddedNodes nodes = add_to_graph(list, graph_, {});
    FMHAX_HIP(hipGraphInstantiate, &executable_, graph_, nullptr, nullptr, 0);
    return nodes;
  }
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

bool is_set(const char* variable) {
  // Nothing in the library sets environment variables.
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && std::strcmp(value, "1") == 0;
}

/// Nothing when the trial could not be made.
std::optional<bool> verdict(bool (Trial::*question)()) noexcept {
  try {
    const RelaxedCapture relaxed;
    Trial trial;
    return (trial.*question)();
  } catch (...) {
    (void)hipGetLastError();
    return std::nullopt;
  }
}

}  // namespace

bool node_parameters_can_be_changed() noexcept {
  static const bool can = !is_set("FMHAX_REBUILD_GRAPHS") && verdict(&Trial::changes_nodes).value_or(false);
  return can;
}

bool graphs_run_host_functions() noexcept {
  enum Known : int { untried, yes, no };
  static std::atomic<int> known{is_set("FMHAX_NO_GRAPH_HOST_FUNCTIONS") ? no : untried};
  if (known == untried) {
    // Several threads may try at once, and find the same.
    const std::optional<bool> found = verdict(&Trial::runs_host_functions);
    if (found) known = *found ? yes : no;
  }
  return known == yes;
}

}  // namespace fmhax::detail
