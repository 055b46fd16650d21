#include "explore_calls.hpp"

namespace fmhax::tool {
namespace {

Problem group_problem(std::int64_t batch, std::int64_t tokens) {
  Problem p;
  p.dtype = DataType::fp32;
  p.is_group_mode = p.is_deterministic = true;
  p.batch = batch;
  p.nhead_q = 2;
  p.nhead_k = 1;
  p.hdim_q = p.hdim_v = 8;
  p.max_seqlen_q = p.max_seqlen_k = p.total_q = p.total_k = tokens;
  p.mask = Mask::causal();
  return p;
}

Problem logical_problem() {
  Problem p = group_problem(3, 20);
  p.logical_lengths = LogicalLengths::per_sequence;
  // With dbias and dsink, each a node of its own.
  p.bias = BiasKind::elementwise;
  p.has_dbias = p.has_sink = true;
  return p;
}

Problem batch_problem() {
  Problem p = group_problem(2, 0);
  p.is_group_mode = false;
  p.max_seqlen_q = p.max_seqlen_k = 9;
  p.total_q = p.total_k = 0;
  return p;
}

/// Many short sequences: staging of another size.
CallShape wide_shape() {
  CallShape shape{group_problem(48, 40), "general", {}};
  for (const std::int32_t stride : {2, 3, 5}) {
    std::vector<std::int32_t> lengths(48, 0);
    for (std::size_t i = 0; i < lengths.size(); i += static_cast<std::size_t>(stride)) lengths[i] = stride > 2 ? 2 : 1;
    shape.lengths.push_back(lengths);
  }
  return shape;
}

const std::vector<std::vector<std::int32_t>> kFourLengths = {{7, 5, 0, 12}, {24, 0, 0, 0}, {1, 2, 3, 4}};
const std::vector<std::vector<std::int32_t>> kThreeLengths = {{7, 1, 12}, {3, 3, 3}, {0, 19, 1}};

/// Owns what an allocator of the scenarios gave; freed by whoever lets go of it last.
std::shared_ptr<void> pinned(std::size_t bytes) {
  auto memory = std::make_shared<ExploredMemory>(ExploredMemory::Kind::pinned, bytes);
  void* data = memory->data();
  return {std::move(memory), data};
}

}  // namespace

ExploredWorld::ExploredWorld() {
  group = std::make_unique<ExploredCall>(CallShape{group_problem(4, 24), "general", kFourLengths});
  logical = std::make_unique<ExploredCall>(CallShape{logical_problem(), "general", kThreeLengths});
  batch = std::make_unique<ExploredCall>(CallShape{batch_problem(), "persistent", {}});
  direct = std::make_unique<ExploredCall>(CallShape{group_problem(4, 24), "direct", kFourLengths});
  wide = std::make_unique<ExploredCall>(wide_shape());
  ExecutorOptions with_host_function;
  with_host_function.keepalive = Keepalive::host_function;
  group_host_function =
      std::make_unique<ExploredCall>(CallShape{group_problem(4, 24), "general", kFourLengths, with_host_function});
  ExecutorOptions on_device;
  on_device.metadata_path = MetadataPath::device;
  group_on_device = std::make_unique<ExploredCall>(CallShape{logical_problem(), "general", kThreeLengths, on_device});
  ExecutorOptions with_allocators;
  with_allocators.pinned_host_alloc = [this](std::size_t bytes) {
    return allocators.fails_now() ? nullptr : pinned(bytes);
  };
  with_allocators.workspace_alloc = [this](std::size_t bytes, bool zero_init) -> void* {
    if (allocators.fails_now()) return nullptr;
    void* memory = own_allocators->arguments().workspace;
    if (zero_init) verification::check_hip(hipMemsetAsync(memory, 0, bytes, allocators.stream), "hipMemsetAsync");
    return memory;
  };
  own_allocators = std::make_unique<ExploredCall>(
      CallShape{group_problem(3, 16), "general", {{7, 1, 8}, {3, 3, 3}}, with_allocators});
  for (int i = 0; i < 4; ++i) streams.emplace_back();
}

bool ExploredWorld::Allocators::fails_now() {
  if (++calls != failing_call) return false;
  failed = true;
  if (throws) throw AllocatorFailure("the caller's allocator failed");
  return true;
}

std::vector<ExploredCall*> ExploredWorld::all() const {
  return {group.get(),           logical.get(),       batch.get(), direct.get(), wide.get(), group_host_function.get(),
          group_on_device.get(), own_allocators.get()};
}

void ExploredWorld::in_library(const std::function<void()>& library) {
  struct Resumed {
    explicit Resumed(hiphost::FaultInjection* injection) : faults(injection) {
      if (faults != nullptr) faults->resume();
    }
    ~Resumed() {
      if (faults != nullptr) faults->suspend();
    }
    Resumed(const Resumed&) = delete;
    Resumed& operator=(const Resumed&) = delete;
    hiphost::FaultInjection* faults;
  };
  const Resumed resumed(faults);
  library();
}

}  // namespace fmhax::tool
