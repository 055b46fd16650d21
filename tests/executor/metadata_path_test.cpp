// MetadataPath::device against the host path: the same bytes, the same status, the same gradients.
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"
#include "node_walk.hpp"
#include "runtime_probe.hpp"
#include "verification/random_problem.hpp"

using namespace fmhax;
using namespace fmhax::test;
using verification::GuardedBuffer;

namespace {

ExecutorOptions on_device() {
  ExecutorOptions options;
  options.metadata_path = MetadataPath::device;
  return options;
}

/// One side's lengths as a call gets them.
struct Arrays {
  std::vector<std::int32_t> seqstart_q, seqstart_k, logical_q, logical_k;

  explicit Arrays(const Case& c) : seqstart_q(c.lengths.q.seqstart), seqstart_k(c.lengths.k.seqstart) {
    const auto given = [&c](const std::vector<std::int32_t>& lengths) {
      if (c.problem.logical_lengths != LogicalLengths::cumulative) return lengths;
      std::vector<std::int32_t> sums(lengths.size() + 1, 0);
      std::partial_sum(lengths.begin(), lengths.end(), sums.begin() + 1);
      return sums;
    };
    if (c.problem.logical_lengths != LogicalLengths::none) {
      logical_q = given(c.lengths.q.logical);
      logical_k = given(c.lengths.k.logical);
    }
    for (std::vector<std::int32_t>* array : all()) array->reserve(1);  // an address also where there are no entries
  }
  std::vector<std::vector<std::int32_t>*> all() { return {&seqstart_q, &seqstart_k, &logical_q, &logical_k}; }

  /// The same as pointers, to these arrays or to copies of them elsewhere.
  static SequenceLengths pointers(const Problem& p, const std::array<const std::int32_t*, 4>& at) {
    SequenceLengths lengths;
    if (p.is_group_mode) {
      lengths.seqstart_q = at[0];
      lengths.seqstart_k = at[1];
    }
    const bool cumulative = p.logical_lengths == LogicalLengths::cumulative;
    if (p.logical_lengths != LogicalLengths::none) {
      (cumulative ? lengths.cu_seqlen_q : lengths.seqlen_q) = at[2];
      (cumulative ? lengths.cu_seqlen_k : lengths.seqlen_k) = at[3];
    }
    return lengths;
  }
};

/// Copies of the arrays in device memory.
class DeviceArrays {
 public:
  explicit DeviceArrays(Arrays& arrays) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::vector<std::int32_t>& array = *arrays.all()[i];
      const auto* bytes = reinterpret_cast<const std::byte*>(array.data());
      buffers_[i] = GuardedBuffer(std::max<std::size_t>(array.size(), 1) * sizeof(std::int32_t));
      if (!array.empty()) buffers_[i].upload({bytes, bytes + array.size() * sizeof(std::int32_t)});
    }
  }
  std::array<const std::int32_t*, 4> pointers() const {
    std::array<const std::int32_t*, 4> pointers{};
    for (std::size_t i = 0; i < pointers.size(); ++i)
      pointers[i] = static_cast<const std::int32_t*>(buffers_[i].data());
    return pointers;
  }

 private:
  std::array<GuardedBuffer, 4> buffers_;
};

/// A kernel for the problem that needs a workspace, which the best one for short sequences doesn't.
std::string kernel_with_metadata(const Problem& problem) {
  const Executor any(problem);
  for (const Candidate& candidate : any.kernel_choice().candidates) {
    if (!candidate.unsupported_reason.empty() || candidate.rank < 0) continue;
    if (!candidate.entry.workspace_spec(problem, any.device()).writes_dq_directly) return candidate.entry.name;
  }
  return {};
}

struct Prepared {
  std::vector<std::byte> metadata;
  std::int64_t dq_acc_bytes = 0;
  CallStatus status;
  bool guards_are_intact = false;
};

/// What prepare_workspace_async leaves of a poisoned workspace.
Prepared prepare_on_device(const Executor& executor, Arrays& arrays) {
  const DeviceArrays on_device_arrays(arrays);
  const auto workspace_bytes = static_cast<std::size_t>(executor.workspace_size());
  GuardedBuffer workspace(workspace_bytes);
  workspace.poison();
  CallArguments arguments;
  arguments.lengths = Arrays::pointers(executor.problem(), on_device_arrays.pointers());
  arguments.workspace = workspace.data();
  arguments.workspace_bytes = executor.workspace_size();
  arguments.status = StatusBuffer::create();
  const OwnedStream stream;
  executor.prepare_workspace_async(arguments, stream.get());
  stream.synchronize();

  const std::vector<std::byte> contents = workspace.download();
  const auto metadata_bytes = workspace_host_size(executor.workspace_spec(), executor.problem().batch);
  Prepared prepared;
  prepared.metadata.assign(contents.begin(), contents.begin() + metadata_bytes);
  prepared.dq_acc_bytes = executor.workspace_size() - metadata_bytes;
  prepared.status = arguments.status.read();
  prepared.guards_are_intact = workspace.guards_are_intact();
  return prepared;
}

/// Checks the device path against pack_workspace_host().
void check_same(const Executor& executor, Arrays& arrays) {
  const Prepared prepared = prepare_on_device(executor, arrays);
  std::vector<std::byte> expected(prepared.metadata.size());
  const SequenceLengths host_lengths = Arrays::pointers(
      executor.problem(),
      {arrays.seqstart_q.data(), arrays.seqstart_k.data(), arrays.logical_q.data(), arrays.logical_k.data()});
  const PackResult packed = pack_workspace_host(executor.workspace_spec(), executor.problem(), host_lengths,
                                                expected.data(), prepared.dq_acc_bytes);
  CHECK(prepared.guards_are_intact);
  CHECK(prepared.metadata == expected);
  CHECK(prepared.status.code == packed.status.code);
  CHECK(prepared.status.side == packed.status.side);
  CHECK(prepared.status.sequence == packed.status.sequence);
  CHECK(prepared.status.value == packed.status.value);
  CHECK(prepared.status.limit == packed.status.limit);
  CHECK(prepared.status.checks == 1);
}

/// The kernels that long_case() chooses.
const KernelEntry& whole() {
  static const KernelEntry entry = Executor(long_case().problem).kernel_choice().entry();
  return entry;
}

/// Registers them under another name, never chosen unasked, with this form_launch.
std::string registered(const char* name, decltype(KernelEntry::form_launch) form_launch) {
  KernelEntry entry = whole();
  entry.name = name;
  entry.rank = [](const Problem&, const DeviceTraits&) { return -1; };
  entry.form_launch = form_launch;
  register_kernels(entry);
  return name;
}

std::string without_prepare() {
  static const std::string name = registered("without-prepare", [](KernelRole role, const DeviceTraits& traits,
                                                                   const KernelParams& params, KernelLaunch& launch) {
    return role != KernelRole::prepare && role != KernelRole::prepare_and_dot &&
           whole().form_launch(role, traits, params, launch);
  });
  return name;
}

/// With prepare and dot_do_o in launches of their own alone.
std::string without_prepare_and_dot() {
  static const std::string name =
      registered("without-prepare-and-dot",
                 [](KernelRole role, const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
                   return role != KernelRole::prepare_and_dot && whole().form_launch(role, traits, params, launch);
                 });
  return name;
}

/// The names of a list's nodes.
std::string node_names(const Executor& executor, detail::CallPart part, MetadataPath path) {
  detail::NodeList list;
  executor.state()->build_node_list({}, {.part = part, .path = path}, list);
  std::string names;
  for (const detail::Node& node : list.nodes()) names += std::string(names.empty() ? "" : " ") + to_string(node.kind);
  return names;
}

bool graphs_lack_host_functions() { return std::getenv("FMHAX_NO_GRAPH_HOST_FUNCTIONS") != nullptr; }

/// Kinds of a graph's nodes.
std::vector<hipGraphNodeType> node_types(hipGraph_t graph) {
  std::vector<hipGraphNode_t> nodes(node_count(graph));
  std::size_t count = nodes.size();
  check_hip(hipGraphGetNodes(graph, nodes.data(), &count), "hipGraphGetNodes");
  std::vector<hipGraphNodeType> types;
  for (hipGraphNode_t node : nodes) {
    types.emplace_back();
    check_hip(hipGraphNodeGetType(node, &types.back()), "hipGraphNodeGetType");
  }
  return types;
}

bool has_type(hipGraph_t graph, hipGraphNodeType type) {
  const std::vector<hipGraphNodeType> types = node_types(graph);
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

TEST_CASE("metadata path: random lengths give the host path's bytes and status") {
  constexpr std::uint64_t kProblems = 150;
  std::mt19937 random(5);
  int refused = 0;
  for (std::uint64_t i = 0; i < kProblems; ++i) {
    CAPTURE(i);
    Case c = verification::random_problem(11, i);
    c.problem.dtype = DataType::bf16;  // which every device has kernels for; metadata don't depend on it
    ExecutorOptions options = on_device();
    options.kernel = kernel_with_metadata(c.problem);
    const Executor executor(c.problem, options);
    Arrays arrays(c);
    check_same(executor, arrays);
    // The same with one entry wrong, anywhere and by any amount.
    for (std::vector<std::int32_t>* array : arrays.all()) {
      if (array->empty()) continue;
      const std::size_t at = random() % array->size();
      const std::int32_t right = (*array)[at];
      (*array)[at] = random() % 2 == 0 ? static_cast<std::int32_t>(random()) : right + 1 - 2 * (random() % 2 == 0);
      check_same(executor, arrays);
      ++refused;
      (*array)[at] = right;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("metadata path: thousands of sequences, more than one block packs") {
  std::mt19937 random(3);
  for (const bool is_deterministic : {false, true}) {
    std::vector<std::int32_t> lengths(5000);
    for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(random() % 300);
    Case c = group_case(lengths, std::accumulate(lengths.begin(), lengths.end(), 0) + 77);
    c.problem.nhead_q = c.problem.nhead_k = 1;
    c.problem.hdim_q = c.problem.hdim_v = 8;
    c.problem.max_seqlen_q = c.problem.max_seqlen_k = 300;
    c.problem.is_deterministic = is_deterministic;
    const Executor executor(c.problem, on_device());
    REQUIRE(!executor.workspace_spec().writes_dq_directly);
    Arrays arrays(c);
    check_same(executor, arrays);
    arrays.seqstart_k[4321] = -1;
    check_same(executor, arrays);
  }
}

TEST_CASE(
    "metadata path: a workspace of a hand-made capacity that is too small is refused by the kernel as on the host") {
  Case c = long_case();
  c.problem.is_deterministic = false;
  const Executor executor(c.problem, on_device());
  Arrays arrays(c);
  std::vector<std::byte> expected(static_cast<std::size_t>(executor.state()->metadata_bytes));
  constexpr std::int64_t kCapacityBytes = 300 * 2 * 16 * 4 + 4;  // the first sequence fits, the third doesn't
  const PackResult packed = pack_workspace_host(
      executor.workspace_spec(), c.problem,
      Arrays::pointers(c.problem, {arrays.seqstart_q.data(), arrays.seqstart_k.data(), nullptr, nullptr}),
      expected.data(), kCapacityBytes);
  REQUIRE(packed.status.code == StatusCode::workspace_too_small);

  const DeviceArrays on_device_arrays(arrays);
  const GuardedBuffer metadata(expected.size());
  const StatusBuffer status = StatusBuffer::create();
  KernelParams params = executor.state()->kernel_params({});
  params.lengths = Arrays::pointers(c.problem, on_device_arrays.pointers());
  params.metadata = metadata.data();
  params.status = status.shared().get();
  params.dq_acc_bytes = kCapacityBytes;
  KernelLaunch launch;
  REQUIRE(executor.kernel_choice().entry().form_launch(KernelRole::prepare, executor.device(), params, launch));
  const OwnedStream stream;
  detail::launch_kernel(launch, stream.get());
  stream.synchronize();
  CHECK(metadata.download() == expected);
  CHECK(status.read().code == packed.status.code);
  CHECK(status.read().sequence == 2);
  CHECK(status.read().sequence == packed.status.sequence);
  CHECK(status.read().value == packed.status.value);
  CHECK(status.read().limit == packed.status.limit);
}

TEST_CASE("metadata path: eager, captured, Graph and prepared apart give the right gradients in every replay") {
  for (const bool is_deterministic : {false, true}) {
    CAPTURE(is_deterministic);
    Case first = long_case();
    Case second = group_case({20, 250, 0, 130}, kCapacity, 9);
    first.problem.is_deterministic = second.problem.is_deterministic = is_deterministic;
    Call call(first, on_device());
    const OwnedStream stream;
    const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
    Graph graph(call.executor, call.arguments());
    for (hipGraph_t made : {captured.graph(), graph.native()}) {
      CHECK(node_count(made) == 3);  // prepare, dq_dk_dv, convert_dq
      CHECK(!has_type(made, hipGraphNodeTypeHost));
      CHECK(!has_type(made, hipGraphNodeTypeMemcpy));
      CHECK(!has_type(made, hipGraphNodeTypeMemset));
    }
    for (int round = 0; round < 3; ++round) {
      call.load(round % 2 == 0 ? second : first);
      const std::array<std::function<void()>, 4> ways{
          [&] { call.executor.enqueue(call.arguments(), stream.get()); }, [&] { captured.launch(stream.get()); },
          [&] { graph.launch(stream.get()); },
          [&] {
            call.executor.prepare_workspace_async(call.arguments(), stream.get());
            call.executor.enqueue_kernels(call.arguments(), stream.get());
          }};
      for (const auto& run : ways) {
        call.device.poison_outputs();
        run();
        stream.synchronize();
        CHECK(call.failure() == "");
      }
    }
  }
}

TEST_CASE("metadata path: d comes with the metadata where one launch makes them for the whole call") {
  using detail::CallPart;
  const Executor in_group(long_case().problem), in_batch(batch_case().problem);
  for (const MetadataPath path : {MetadataPath::host, MetadataPath::device}) {
    CHECK(node_names(in_batch, CallPart::all, path) == "prepare dq_dk_dv convert_dq");
    for (const Executor* executor : {&in_group, &in_batch}) {
      CHECK(node_names(*executor, CallPart::kernels, path) == "zero dot_do_o dq_dk_dv convert_dq");
    }
  }
  CHECK(node_names(in_group, CallPart::all, MetadataPath::device) == "prepare dq_dk_dv convert_dq");
  CHECK(node_names(in_group, CallPart::all, MetadataPath::host) ==
        "fetch_q fetch_k pack upload zero dot_do_o dq_dk_dv convert_dq");
  CHECK(node_names(in_batch, CallPart::preparation, MetadataPath::host) == "set_nsplits");
  CHECK(node_names(in_batch, CallPart::preparation, MetadataPath::device) == "prepare");

  ExecutorOptions options;
  options.kernel = without_prepare_and_dot();
  const Executor apart(batch_case().problem, options);
  CHECK(node_names(apart, CallPart::all, MetadataPath::host) == "set_nsplits zero dot_do_o dq_dk_dv convert_dq");
  CHECK(node_names(apart, CallPart::all, MetadataPath::device) == "prepare dot_do_o dq_dk_dv convert_dq");
}

TEST_CASE("metadata path: d with the metadata or by itself gives the same gradients and the same reports") {
  for (const Case& c : {long_case(), batch_case()}) {
    for (const MetadataPath path : {MetadataPath::host, MetadataPath::device}) {
      CAPTURE(c.problem.is_group_mode);
      CAPTURE(path);
      std::vector<std::vector<double>> dq;
      for (const std::string& kernel : {std::string(whole().name), without_prepare_and_dot()}) {
        ExecutorOptions options;
        options.metadata_path = path;
        options.kernel = kernel;
        Call call(c, options);
        call.arguments().status = StatusBuffer::create();
        const auto enqueue = [&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); };
        CHECK(failure_of_replay(call, enqueue) == "");
        dq.push_back(call.device.download_gradients().dq.data);
        // Where there are no lengths to pack, the host path has nothing to check.
        const bool is_checked = c.problem.is_group_mode || path == MetadataPath::device;
        CHECK(call.arguments().status.read().code == StatusCode::ok);
        CHECK(call.arguments().status.read().checks == (is_checked ? 1 : 0));
      }
      CHECK(dq[0] == dq[1]);
    }
  }
}

TEST_CASE("metadata path: the launch that prepares a whole call zeroes only where the allocator did not") {
  Case c = batch_case();
  c.problem.is_deterministic = false;
  for (const bool is_zeroed : {false, true}) {
    GuardedBuffer memory;
    ExecutorOptions options;
    options.workspace_alloc = [&](std::size_t bytes, bool zero_init) {
      CHECK(zero_init);
      memory = GuardedBuffer(bytes);
      memory.poison();
      if (is_zeroed) check_hip(hipMemset(memory.data(), 0, bytes), "hipMemset");
      return memory.data();
    };
    Call call(c, options);
    call.arguments().workspace = nullptr;
    call.arguments().workspace_bytes = 0;
    const auto enqueue = [&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); };
    CHECK(failure_of_replay(call, enqueue).empty() == is_zeroed);
    CHECK(memory.guards_are_intact());
  }
}

TEST_CASE("metadata path: the device path takes no staging") {
  Call call(long_case(), on_device());
  detail::StagingPool& pool = call.executor.state()->pool;
  pool.collect();
  const std::size_t pinned = pool.counters().pinned_bytes;
  const OwnedStream stream;
  call.executor.enqueue(call.arguments(), stream.get());
  stream.synchronize();
  CHECK(pool.counters().pinned_bytes == pinned);
}

TEST_CASE("metadata path: kernels that can't prepare are refused by name, kernels that need no metadata are not") {
  ExecutorOptions options = on_device();
  options.kernel = without_prepare();
  CHECK_THROWS_WITH_AS(Executor(long_case().problem, options), doctest::Contains("'without-prepare'"), Error);
  options.metadata_path = MetadataPath::host;
  CHECK_NOTHROW(Executor(long_case().problem, options));
  const Executor direct(group_case({60, 0, 1, 30}, 100).problem, on_device());
  CHECK(direct.workspace_spec().writes_dq_directly);
}

TEST_CASE("metadata path: graphs of kernels that can't prepare need host functions, eager calls don't") {
  ExecutorOptions options;
  options.kernel = without_prepare();
  Call call(long_case(), options);
  if (graphs_lack_host_functions()) {
    CHECK_THROWS_WITH_AS(Graph(call.executor, call.arguments()), doctest::Contains("host functions"), Error);
  } else {
    CHECK_NOTHROW(Graph(call.executor, call.arguments()));
  }
  const OwnedStream stream;
  call.device.poison_outputs();
  call.executor.enqueue(call.arguments(), stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("metadata path: without host functions in graphs, graphs prepare on the device and eager calls don't") {
  Call call(long_case());
  const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
  Graph graph(call.executor, call.arguments());
  CHECK(detail::graphs_run_host_functions() == !graphs_lack_host_functions());
  for (hipGraph_t made : {captured.graph(), graph.native()}) {
    CHECK(has_type(made, hipGraphNodeTypeHost) == !graphs_lack_host_functions());
  }
  const OwnedStream stream;
  for (int round = 0; round < 2; ++round) {
    call.device.poison_outputs();
    captured.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
    call.device.poison_outputs();
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
    call.device.poison_outputs();
    call.executor.enqueue(call.arguments(), stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
  }
}
