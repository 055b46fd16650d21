#include "fmhax/graph.hpp"

#include "handles.hpp"

namespace fmhax::c_interface {
namespace {

static_assert(sizeof(fmhax_graph_counters) == offsetof(fmhax_graph_counters, rebuilds) + sizeof(std::int64_t));

Graph& graph_of(fmhax_graph* handle) { return required(handle, "graph").graph; }
const Graph& graph_of(const fmhax_graph* handle) { return required(handle, "graph").graph; }

}  // namespace
}  // namespace fmhax::c_interface

using namespace fmhax::c_interface;

fmhax_error_code fmhax_graph_create(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                    fmhax_graph** graph) {
  return create_handle(graph, "graph", [&] {
    return new fmhax_graph{fmhax::Graph(required(executor, "executor").executor, arguments_from(arguments))};
  });
}

void fmhax_graph_destroy(fmhax_graph* graph) { delete graph; }

fmhax_error_code fmhax_graph_update(fmhax_graph* graph, const fmhax_call_arguments* arguments) {
  return guarded([&] { graph_of(graph).update(arguments_from(arguments)); });
}

fmhax_error_code fmhax_graph_launch(fmhax_graph* graph, fmhax_stream stream) {
  return guarded([&] { graph_of(graph).launch(to_hip(stream)); });
}

fmhax_error_code fmhax_graph_status(const fmhax_graph* graph, fmhax_call_status* status) {
  return guarded([&] { write_struct(to_c(graph_of(graph).status()), status, "status"); });
}

fmhax_error_code fmhax_graph_get_counters(const fmhax_graph* graph, fmhax_graph_counters* counters) {
  return guarded([&] {
    const fmhax::Graph::Counters from = graph_of(graph).counters();
    write_struct(fmhax_graph_counters{0, from.launches, from.updates, from.rebuilds}, counters, "counters");
  });
}

fmhax_error_code fmhax_graph_native(const fmhax_graph* graph, fmhax_hip_graph* native) {
  return guarded([&] { required(native, "native") = from_hip(graph_of(graph).native()); });
}

fmhax_error_code fmhax_graph_dot(const fmhax_graph* graph, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(graph_of(graph).dot(), text, capacity, length); });
}
