#include <cstdio>
#include <memory>

#include "api.hpp"
#include "graph.hpp"

using namespace hiphost;

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

void print_details(std::FILE* file, const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work)) {
    std::fprintf(file, "\\n%p <- %p\\n%zu x %zu x %zu bytes", copy->dst, copy->src, copy->width, copy->height,
                 copy->depth);
  } else if (const auto* set = std::get_if<SetWork>(&work)) {
    std::fprintf(file, "\\n%p = 0x%x\\n%zu x %zu elements of %u bytes", set->dst, set->value, set->width, set->height,
                 set->element_size);
  } else if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    std::fprintf(file, "\\n%p\\ngrid %u %u %u, block %u %u %u, shared %zu", kernel->kernel->function, kernel->grid.x,
                 kernel->grid.y, kernel->grid.z, kernel->block.x, kernel->block.y, kernel->block.z,
                 kernel->shared_bytes);
  } else if (const auto* host = std::get_if<HostWork>(&work)) {
    std::fprintf(file, "\\n%p(%p)", reinterpret_cast<void*>(host->function), host->data);
  } else if (const auto* record = std::get_if<RecordWork>(&work)) {
    std::fprintf(file, "\\nevent %p", static_cast<void*>(record->event.get()));
  } else if (const auto* wait = std::get_if<WaitWork>(&work)) {
    std::fprintf(file, "\\nevent %p", static_cast<void*>(wait->event.get()));
  }
}

unsigned detail_flag(const Work& work) {
  switch (node_type(work)) {
    case hipGraphNodeTypeKernel:
      return hipGraphDebugDotFlagsKernelNodeParams;
    case hipGraphNodeTypeMemcpy:
      return hipGraphDebugDotFlagsMemcpyNodeParams;
    case hipGraphNodeTypeMemset:
      return hipGraphDebugDotFlagsMemsetNodeParams;
    case hipGraphNodeTypeHost:
      return hipGraphDebugDotFlagsHostNodeParams;
    default:
      return hipGraphDebugDotFlagsEventNodeParams;
  }
}

void print_graph(std::FILE* file, const Graph& graph, unsigned flags, const char* keyword) {
  std::fprintf(file, "%s graph_%llu {\n", keyword, static_cast<unsigned long long>(graph.id));
  for (const auto& node : graph.nodes) {
    const auto id = static_cast<unsigned long long>(node->id);
    std::fprintf(file, "node_%llu [shape=box, label=\"%s", id, work_name(node->work));
    if ((flags & hipGraphDebugDotFlagsHandles) != 0) std::fprintf(file, "\\n%p", static_cast<void*>(node.get()));
    if ((flags & (hipGraphDebugDotFlagsVerbose | detail_flag(node->work))) != 0) print_details(file, node->work);
    std::fprintf(file, "\"];\n");
    if (node->child) print_graph(file, *node->child, flags, "subgraph");
  }
  for (const auto& node : graph.nodes) {
    for (const Node* after : node->after) {
      std::fprintf(file, "node_%llu -> node_%llu;\n", static_cast<unsigned long long>(node->id),
                   static_cast<unsigned long long>(after->id));
    }
  }
  std::fprintf(file, "}\n");
}

}  // namespace

extern "C" hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned int flags) {
  FMHAX_HIP_API({
    if (path == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Graph* target = rt.graphs.find(graph);
    if (target == nullptr) return hipErrorInvalidValue;
    const File file(std::fopen(path, "w"));
    if (!file) return hipErrorOperatingSystem;
    print_graph(file.get(), *target, flags, "digraph");
    return hipSuccess;
  });
}
