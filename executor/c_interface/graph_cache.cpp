#include "fmhax/graph_cache.hpp"

#include "handles.hpp"

namespace fmhax::c_interface {
namespace {

static_assert(sizeof(fmhax_graph_cache_counters) ==
              offsetof(fmhax_graph_cache_counters, evictions) + sizeof(std::int64_t));

GraphCache& cache_of(fmhax_graph_cache* handle) { return required(handle, "cache").cache; }
const GraphCache& cache_of(const fmhax_graph_cache* handle) { return required(handle, "cache").cache; }

}  // namespace
}  // namespace fmhax::c_interface

using namespace fmhax::c_interface;

fmhax_error_code fmhax_graph_cache_create(size_t capacity, fmhax_graph_cache** cache) {
  return create_handle(cache, "cache", [&] { return new fmhax_graph_cache{fmhax::GraphCache(capacity)}; });
}

void fmhax_graph_cache_destroy(fmhax_graph_cache* cache) { delete cache; }

fmhax_error_code fmhax_graph_cache_launch(fmhax_graph_cache* cache, const fmhax_executor* executor,
                                          const fmhax_call_arguments* arguments, fmhax_stream stream) {
  return guarded([&] {
    cache_of(cache).launch(required(executor, "executor").executor, arguments_from(arguments), to_hip(stream));
  });
}

fmhax_error_code fmhax_graph_cache_get_counters(const fmhax_graph_cache* cache, fmhax_graph_cache_counters* counters) {
  return guarded([&] {
    const fmhax::GraphCache::Counters from = cache_of(cache).counters();
    write_struct(fmhax_graph_cache_counters{0, from.hits, from.misses, from.updates, from.rebuilds, from.evictions},
                 counters, "counters");
  });
}

fmhax_error_code fmhax_graph_cache_size(const fmhax_graph_cache* cache, size_t* size) {
  return guarded([&] { required(size, "size") = cache_of(cache).size(); });
}

fmhax_error_code fmhax_graph_cache_capacity(const fmhax_graph_cache* cache, size_t* capacity) {
  return guarded([&] { required(capacity, "capacity") = cache_of(cache).capacity(); });
}

fmhax_error_code fmhax_graph_cache_clear(fmhax_graph_cache* cache) {
  return guarded([&] { cache_of(cache).clear(); });
}
