#include "declarations.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "memory.hpp"

namespace hiphost {
namespace {

struct Declarations {
  std::shared_mutex mutex;
  std::unordered_map<const void*, KernelDeclaration> kernels;
  std::unordered_map<hipHostFn_t, std::pair<std::string, HostFunctionRanges>> host_functions;
  std::unordered_map<const void*, std::string> transfers;
};

// Usable before and after the runtime itself.
Declarations& declarations() {
  static auto* const all = new Declarations;
  return *all;
}

std::optional<KernelDeclaration> kernel_declaration(const void* function) {
  Declarations& all = declarations();
  std::shared_lock lock(all.mutex);
  const auto it = all.kernels.find(function);
  return it == all.kernels.end() ? std::nullopt : std::optional(it->second);
}

std::pair<std::string, HostFunctionRanges> host_function_declaration(hipHostFn_t function) {
  Declarations& all = declarations();
  std::shared_lock lock(all.mutex);
  const auto it = all.host_functions.find(function);
  return it == all.host_functions.end() ? std::pair<std::string, HostFunctionRanges>{} : it->second;
}

std::string transfer_name(std::initializer_list<const void*> addresses) {
  Declarations& all = declarations();
  std::shared_lock lock(all.mutex);
  for (const void* address : addresses) {
    if (const auto it = all.transfers.find(address); it != all.transfers.end()) return it->second;
  }
  return {};
}

// Rows that follow one another without a gap become one range.
class Collector final : public RangeSink {
 public:
  Collector(const MemoryMap& memory, std::vector<Access>& out) : memory_(memory), out_(out) {}

  void read(const void* base, std::size_t bytes) override { add(base, bytes, false); }
  void write(void* base, std::size_t bytes) override { add(base, bytes, true); }

  void rows(const void* base, std::size_t pitch, std::size_t slice, std::size_t width, std::size_t height,
            std::size_t depth, bool is_write) {
    for (std::size_t z = 0; z < depth; ++z) {
      for (std::size_t y = 0; y < height; ++y) {
        append(reinterpret_cast<std::uintptr_t>(base) + z * slice + y * pitch, width, is_write);
      }
    }
  }

 private:
  void add(const void* base, std::size_t bytes, bool is_write) {
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    if (base == nullptr) return;
    if (begin < known_begin_ || begin >= known_end_) {
      const auto range = memory_.find(base);
      known_begin_ = range ? range->base : begin;
      known_end_ = range ? range->base + range->size : UINTPTR_MAX;
    }
    append(begin, std::min<std::size_t>(bytes, known_end_ - begin), is_write);
  }

  void append(std::uintptr_t begin, std::size_t bytes, bool is_write) {
    if (bytes == 0) return;
    if (out_.size() > first_ && out_.back().end == begin && out_.back().is_write == is_write) {
      out_.back().end += bytes;
    } else {
      out_.push_back({begin, begin + bytes, is_write});
    }
  }

  const MemoryMap& memory_;
  std::vector<Access>& out_;
  const std::size_t first_ = out_.size();
  std::uintptr_t known_begin_ = 1;  // of the allocation that was looked up last
  std::uintptr_t known_end_ = 0;
};

struct Collect {
  const MemoryMap& memory;
  Collector& sink;

  void operator()(const CopyWork& w) const {
    sink.rows(w.src, w.src_pitch, w.src_slice, w.width, w.height, w.depth, false);
    sink.rows(w.dst, w.dst_pitch, w.dst_slice, w.width, w.height, w.depth, true);
  }
  void operator()(const SetWork& w) const {
    sink.rows(w.dst, w.pitch, w.slice, w.width * w.element_size, w.height, w.depth, true);
  }
  void operator()(const KernelWork& w) const {
    const auto declaration = kernel_declaration(w.kernel->function);
    if (!declaration || declaration->ranges == nullptr) return;
    std::vector<const void*> args;
    for (const std::size_t offset : w.kernel->offsets) args.push_back(w.args.data() + offset);
    declaration->ranges(args.data(), sink);
  }
  void operator()(const HostWork& w) const {
    if (HostFunctionRanges ranges = host_function_declaration(w.function).second) ranges(w.data, sink);
  }
  void operator()(const FreeWork& w) const {
    if (const auto range = memory.find(w.pointer)) sink.rows(w.pointer, 0, 0, range->size, 1, 1, true);
  }
  template <class Other>
  void operator()(const Other&) const {}
};

std::string declared_name(const Work& work) {
  if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    const auto declaration = kernel_declaration(kernel->kernel->function);
    return declaration && declaration->name != nullptr ? declaration->name : "";
  }
  if (const auto* host = std::get_if<HostWork>(&work)) return host_function_declaration(host->function).first;
  if (const auto* copy = std::get_if<CopyWork>(&work)) return transfer_name({copy->src, copy->dst});
  if (const auto* set = std::get_if<SetWork>(&work)) return transfer_name({set->dst});
  return {};
}

}  // namespace

void declare_kernel(const void* handle, const KernelDeclaration& declaration) {
  Declarations& all = declarations();
  std::lock_guard lock(all.mutex);
  all.kernels[handle] = declaration;
}

void declare_host_function(hipHostFn_t function, const char* name, HostFunctionRanges ranges) {
  Declarations& all = declarations();
  std::lock_guard lock(all.mutex);
  all.host_functions[function] = {name != nullptr ? name : "", ranges};
}

void name_transfers(const void* address, const std::string& name) {
  Declarations& all = declarations();
  std::lock_guard lock(all.mutex);
  if (name.empty()) {
    all.transfers.erase(address);
  } else {
    all.transfers[address] = name;
  }
}

void collect_accesses(const Work& work, const MemoryMap& memory, std::vector<Access>& out) {
  Collector sink(memory, out);
  std::visit(Collect{memory, sink}, work);
}

bool may_reorder_blocks(const KernelWork& work) {
  const auto declaration = kernel_declaration(work.kernel->function);
  return declaration && declaration->blocks_in_any_order;
}

std::string display_name(const Work& work, bool in_graph) {
  const std::string name = declared_name(work);
  const char* const kind = work_name(work);
  if (name.empty()) return in_graph ? std::string(kind) + " (graph)" : kind;
  return name + " (" + kind + (in_graph ? ", graph)" : ")");
}

}  // namespace hiphost
