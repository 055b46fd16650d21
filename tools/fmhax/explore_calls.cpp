#include "explore_calls.hpp"

#include <hiphost/ranges.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "executor/executor_state.hpp"
#include "executor/node_list.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The best entry for this machine whose name ends so.
std::string kernel_with_ending(const Problem& problem, const std::string& ending) {
  const Executor any(problem);
  const Candidate* best = nullptr;
  for (const Candidate& candidate : any.kernel_choice().candidates) {
    const std::string name = candidate.entry.name;
    if (!candidate.unsupported_reason.empty() || !name.ends_with(ending)) continue;
    if (best == nullptr || candidate.rank > best->rank) best = &candidate;
  }
  if (best == nullptr) throw std::runtime_error("no kernel ends with " + ending);
  return best->entry.name;
}

void pack_ranges(void* user_data, hiphost::RangeSink& sink) {
  const auto& job = *static_cast<const detail::PackJob*>(user_data);
  sink.read(&job, sizeof job);
  const auto entries = static_cast<std::size_t>(job.problem.batch);
  const auto array = [&sink](const std::int32_t* data, std::size_t count) {
    if (data != nullptr) sink.read(data, count * sizeof(std::int32_t));
  };
  const SequenceLengths& lengths = job.lengths;
  array(lengths.seqstart_q, entries + 1);
  array(lengths.seqstart_k, entries + 1);
  array(lengths.seqlen_q, entries);
  array(lengths.seqlen_k, entries);
  array(lengths.cu_seqlen_q, entries + 1);
  array(lengths.cu_seqlen_k, entries + 1);
  sink.write(job.metadata, static_cast<std::size_t>(workspace_host_size(job.spec, job.problem.batch)));
  if (job.status != nullptr) sink.write(job.status, sizeof(CallStatus));
}

/// The host function is the executor's own; a list that has the node tells which it is.
void declare_pack(const Executor& executor) {
  if (!executor.state()->packs_lengths) return;
  detail::NodeList list;
  executor.state()->build_node_list({}, {.part = detail::CallPart::preparation}, list);
  for (const detail::Node& node : list.nodes()) {
    if (const auto* host = std::get_if<detail::HostNode>(&node.operation)) {
      hiphost::declare_host_function(host->function, to_string(node.kind), pack_ranges);
    }
  }
}

/// Gives out parts of one allocation.
class Parts {
 public:
  std::size_t add(std::size_t bytes) { return std::exchange(total_, total_ + aligned(bytes)); }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

std::size_t element_count(const TensorView& view) {
  return static_cast<std::size_t>(view.batch * view.seqlen * view.nhead * view.hdim);
}

/// The tensors of a call without their memory.
CallArguments shapes_of(const Problem& p) {
  CallArguments a;
  const std::int64_t batch = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows_of_q = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  const std::int64_t rows_of_k = p.is_group_mode ? p.total_k : p.max_seqlen_k;
  a.q = a.dq = TensorView::bshd(nullptr, p.dtype, batch, rows_of_q, p.nhead_q, p.hdim_q);
  a.k = a.dk = TensorView::bshd(nullptr, p.dtype, batch, rows_of_k, p.nhead_k, p.hdim_q);
  a.v = a.dv = TensorView::bshd(nullptr, p.dtype, batch, rows_of_k, p.nhead_k, p.hdim_v);
  a.o = a.dout = TensorView::bshd(nullptr, p.dtype, batch, rows_of_q, p.nhead_q, p.hdim_v);
  a.lse = a.d = TensorView::rows_bhs(nullptr, batch, p.nhead_q, rows_of_q);
  if (p.bias == BiasKind::elementwise) {
    a.bias = a.dbias = TensorView::bshd(nullptr, p.dtype, 1, rows_of_q, 1, p.max_seqlen_k);
  }
  a.scale = 0.3F;
  return a;
}

void place(const std::vector<TensorView*>& views, std::unique_ptr<ExploredMemory>& memory) {
  Parts parts;
  std::vector<std::size_t> offsets;
  offsets.reserve(views.size());
  for (const TensorView* view : views) offsets.push_back(parts.add(element_count(*view) * sizeof(float)));
  memory = std::make_unique<ExploredMemory>(ExploredMemory::Kind::device, parts.total());
  for (std::size_t i = 0; i < views.size(); ++i) views[i]->data = memory->data() + offsets[i];
}

}  // namespace

ExploredMemory::ExploredMemory(Kind kind, std::size_t bytes) : kind_(kind), bytes_(std::max<std::size_t>(bytes, 16)) {
  void* memory = nullptr;
  if (kind == Kind::device) {
    check_hip(hipMalloc(&memory, bytes_), "hipMalloc");
  } else {
    check_hip(hipHostMalloc(&memory, bytes_, hipHostMallocDefault), "hipHostMalloc");
  }
  data_ = static_cast<std::byte*>(memory);
}

ExploredMemory::~ExploredMemory() { (void)(kind_ == Kind::device ? hipFree(data_) : hipHostFree(data_)); }

ExploredCall::ExploredCall(const CallShape& shape) {
  const Problem& p = shape.problem;
  ExecutorOptions options = shape.options;
  options.kernel = kernel_with_ending(p, shape.kernel);
  executor_ = std::make_unique<Executor>(p, options);
  arguments_ = shapes_of(p);
  TensorView sink{nullptr, DataType::fp32, 1, 1, 1, p.has_sink ? p.nhead_q : 0};
  TensorView dsink = sink;
  place({&arguments_.q, &arguments_.k, &arguments_.v, &arguments_.o, &arguments_.dout, &arguments_.lse,
         &arguments_.bias, &sink},
        inputs_);
  place({&arguments_.dq, &arguments_.dk, &arguments_.dv, &arguments_.d, &arguments_.dbias, &dsink}, outputs_);
  if (p.bias == BiasKind::none) arguments_.bias = arguments_.dbias = {};
  if (p.has_sink) {
    arguments_.sink = static_cast<const float*>(sink.data);
    arguments_.dsink = static_cast<float*>(dsink.data);
  }

  // Any finite numbers do: what a call alone gives for them is what it must give in every schedule.
  std::vector<float> values(inputs_->bytes() / sizeof(float));
  std::mt19937 random(static_cast<unsigned>(p.batch * 1000 + p.max_seqlen_q));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
  check_hip(hipMemcpy(inputs_->data(), values.data(), inputs_->bytes(), hipMemcpyHostToDevice), "hipMemcpy");

  // Room in front, so that filling the whole allocation starts at another address than any of the call's own nodes.
  const auto workspace_bytes = static_cast<std::size_t>(executor_->workspace_size());
  if (workspace_bytes > 0) {
    workspace_ = std::make_unique<ExploredMemory>(ExploredMemory::Kind::device, kAlignment + workspace_bytes);
    arguments_.workspace = workspace_->data() + kAlignment;
    arguments_.workspace_bytes = executor_->workspace_size();
  }
  arguments_.status = StatusBuffer::create();

  const auto batch = static_cast<std::size_t>(p.batch);
  const std::size_t variants = std::max<std::size_t>(shape.lengths.size(), 1);
  if (p.is_group_mode) {
    // seqstart_q, seqstart_k, seqlen_q, seqlen_k, one after another.
    const std::size_t starts = aligned((batch + 1) * sizeof(std::int32_t));
    lengths_bytes_ = 4 * starts;
    device_lengths_ = std::make_unique<ExploredMemory>(ExploredMemory::Kind::device, lengths_bytes_);
    variant_lengths_ = std::make_unique<ExploredMemory>(ExploredMemory::Kind::pinned, variants * lengths_bytes_);
    std::memset(variant_lengths_->data(), 0, variant_lengths_->bytes());
    const auto at = [&](std::byte* base, std::size_t i) { return reinterpret_cast<std::int32_t*>(base + i * starts); };
    for (std::size_t v = 0; v < variants; ++v) {
      std::byte* base = variant_lengths_->data() + v * lengths_bytes_;
      for (std::size_t i = 0; i < 2; ++i) {
        at(base, i)[0] = 0;
        std::partial_sum(shape.lengths[v].begin(), shape.lengths[v].end(), at(base, i) + 1);
        // One row of each longer sequence is padding.
        std::transform(shape.lengths[v].begin(), shape.lengths[v].end(), at(base, 2 + i),
                       [](std::int32_t length) { return std::max(length - 1, length > 0 ? 1 : 0); });
      }
    }
    arguments_.lengths.seqstart_q = at(device_lengths_->data(), 0);
    arguments_.lengths.seqstart_k = at(device_lengths_->data(), 1);
    if (p.logical_lengths == LogicalLengths::per_sequence) {
      arguments_.lengths.seqlen_q = at(device_lengths_->data(), 2);
      arguments_.lengths.seqlen_k = at(device_lengths_->data(), 3);
    }
  }
  results_ = std::make_unique<ExploredMemory>(ExploredMemory::Kind::pinned, kResults * outputs_->bytes());

  declare_pack(*executor_);
  name_nodes();

  const verification::OwnedStream stream;
  for (std::size_t v = 0; v < variants; ++v) {
    upload(v, stream.get());
    executor_->enqueue(arguments_, stream.get());
    std::vector<std::byte> outputs(outputs_->bytes());
    stream.synchronize();
    check_hip(hipMemcpy(outputs.data(), outputs_->data(), outputs.size(), hipMemcpyDeviceToHost), "hipMemcpy");
    expected_.push_back(std::move(outputs));
  }
}

ExploredCall::~ExploredCall() {
  for (const void* address : named_) hiphost::name_transfers(address, {});
}

void ExploredCall::name_transfers(const void* address, const char* name) {
  hiphost::name_transfers(address, name);
  named_.push_back(address);
}

/// Reports then call copies and sets as `fmhax plan` does.
void ExploredCall::name_nodes() {
  name_transfers(outputs_->data(), "outputs");
  if (workspace_) name_transfers(workspace_->data(), "workspace");
  for (std::size_t at = 0; variant_lengths_ && at < variant_lengths_->bytes(); at += lengths_bytes_) {
    name_transfers(variant_lengths_->data() + at, "lengths");
  }
  detail::NodeList list;
  const detail::ExecutorState& state = *executor_->state();
  state.build_node_list(arguments_, {.path = state.options.metadata_path}, list);
  for (const detail::Node& node : list.nodes()) {
    if (const auto* copy = std::get_if<detail::CopyNode>(&node.operation)) {
      const bool is_upload = copy->kind == hipMemcpyHostToDevice;
      name_transfers(is_upload ? copy->destination : copy->source, to_string(node.kind));
    } else if (const auto* set = std::get_if<detail::SetNode>(&node.operation)) {
      name_transfers(set->destination, to_string(node.kind));
    }
  }
}

SequenceLengths ExploredCall::host_lengths(std::size_t variant) const {
  SequenceLengths lengths;
  if (!variant_lengths_) return lengths;
  const std::byte* base = variant_lengths_->data() + variant * lengths_bytes_;
  const auto part = [&](std::size_t i) { return reinterpret_cast<const std::int32_t*>(base + i * lengths_bytes_ / 4); };
  lengths.seqstart_q = part(0);
  lengths.seqstart_k = part(1);
  if (arguments_.lengths.seqlen_q != nullptr) {
    lengths.seqlen_q = part(2);
    lengths.seqlen_k = part(3);
  }
  return lengths;
}

void ExploredCall::upload(std::size_t variant, hipStream_t stream) const {
  if (variant_lengths_) {
    check_hip(hipMemcpyAsync(device_lengths_->data(), variant_lengths_->data() + variant * lengths_bytes_,
                             lengths_bytes_, hipMemcpyHostToDevice, stream),
              "hipMemcpyAsync");
  }
  check_hip(hipMemsetAsync(outputs_->data(), 0xFF, outputs_->bytes(), stream), "hipMemsetAsync");
  if (workspace_) {
    check_hip(hipMemsetAsync(workspace_->data(), 0xFF, workspace_->bytes(), stream), "hipMemsetAsync");
  }
}

void ExploredCall::download(std::size_t variant, hipStream_t stream) {
  if (used_results_.size() >= kResults) throw std::logic_error("a scenario takes more results than there are");
  const std::size_t slot = used_results_.size();
  check_hip(hipMemcpyAsync(results_->data() + slot * outputs_->bytes(), outputs_->data(), outputs_->bytes(),
                           hipMemcpyDeviceToHost, stream),
            "hipMemcpyAsync");
  used_results_.push_back({variant, slot});
}

std::string ExploredCall::mismatch() const {
  // Not d, which is scratch, whose padding nobody writes.
  struct Output {
    const char* name;
    const void* data;
    std::size_t elements;
  };
  const std::array<Output, 5> outputs = {
      {{"dq", arguments_.dq.data, element_count(arguments_.dq)},
       {"dk", arguments_.dk.data, element_count(arguments_.dk)},
       {"dv", arguments_.dv.data, element_count(arguments_.dv)},
       {"dbias", arguments_.dbias.data, element_count(arguments_.dbias)},
       {"dsink", arguments_.dsink, static_cast<std::size_t>(executor_->problem().nhead_q)}}};
  for (const Result& result : used_results_) {
    const std::byte* found = results_->data() + result.slot * outputs_->bytes();
    for (const Output& output : outputs) {
      if (output.data == nullptr) continue;
      const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(output.data) - outputs_->data());
      const std::size_t bytes = output.elements * sizeof(float);
      if (std::memcmp(found + offset, expected_[result.variant].data() + offset, bytes) == 0) continue;
      return fmt::format("{} of result {} differs from the call alone ({})", output.name, result.slot,
                         to_string(executor_->problem()));
    }
  }
  return {};
}

}  // namespace fmhax::tool
