#include "fmhax/graph_cache.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "call_check.hpp"
#include "enqueue.hpp"
#include "executor_state.hpp"
#include "graph_key.hpp"
#include "hip_calls.hpp"

namespace fmhax {
namespace detail {
namespace {

/// One graph of a cache. Whoever uses it holds a reference, so an entry with a single one is the cache's alone.
struct CachedGraph {
  std::mutex mutex;            ///< held while the graph is made, retargeted and launched
  bool is_fitted = false;      ///< the graph does what its key says
  std::optional<Graph> graph;  ///< while not fitted: none, or one to be retargeted
};
using CacheEntry = std::shared_ptr<CachedGraph>;

/// All that making or retargeting a graph, and launching it, would refuse.
void check_launch(const ExecutorState& state, const CallArguments& arguments, hipStream_t stream) {
  check_stream(state, stream);
  const DeviceGuard guard(state.traits.device);
  check_not_capturing(stream);
  check_call(state, arguments, {.workspace_bytes = arguments.workspace == nullptr ? 0 : state.workspace_bytes});
}

}  // namespace
}  // namespace detail

class GraphCache::Impl {
 public:
  explicit Impl(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0) throw Error(ErrorCode::invalid_argument, "capacity is 0; a graph cache holds at least 1 graph");
  }

  void launch(const Executor& executor, const CallArguments& arguments, hipStream_t stream);
  void clear();
  Counters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return slots_.size();
  }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  struct Slot {
    detail::GraphKey key;
    detail::CacheEntry entry;
  };
  using Slots = std::list<Slot>;

  /// The entry of this key, now the most recently used; null when there is none. Call with the lock held.
  detail::CacheEntry find(const detail::GraphKey& key);
  /// A new entry, or one that had to give way, with the right to use it.
  struct Placed {
    detail::CacheEntry entry;
    std::unique_lock<std::mutex> use;
  };
  /// An entry for a key that has none, not fitted yet. Call with the lock held; `dropped` is to be let go without it.
  Placed place(const detail::GraphKey& key, detail::CacheEntry& dropped);
  /// Takes a slot out to make room. Returns its entry when its graph can be retargeted to the key's arguments.
  detail::CacheEntry make_room(const detail::PlanKey& plan, detail::CacheEntry& dropped);
  void erase(Slots::iterator slot);

  /// Makes or retargets the graph of an entry whose mutex is held; on failure the entry is no longer the cache's.
  void fit(const detail::GraphKey& key, const detail::CacheEntry& entry, const Executor& executor);

  const std::size_t capacity_;
  mutable std::mutex mutex_;  ///< of what follows; never held during a HIP call
  Slots slots_;               ///< the most recently used first
  std::unordered_map<detail::GraphKey, Slots::iterator, detail::GraphKeyHash> slot_of_;
  Counters counters_;
};

detail::CacheEntry GraphCache::Impl::find(const detail::GraphKey& key) {
  const auto found = slot_of_.find(key);
  if (found == slot_of_.end()) return nullptr;
  slots_.splice(slots_.begin(), slots_, found->second);
  return found->second->entry;
}

void GraphCache::Impl::erase(Slots::iterator slot) {
  slot_of_.erase(slot->key);
  slots_.erase(slot);
}

detail::CacheEntry GraphCache::Impl::make_room(const detail::PlanKey& plan, detail::CacheEntry& dropped) {
  const auto is_idle_of_plan = [&plan](const Slot& slot) {
    return slot.key.plan == plan && slot.entry.use_count() == 1;
  };
  const auto oldest = std::find_if(slots_.rbegin(), slots_.rend(), is_idle_of_plan);
  if (oldest != slots_.rend()) {
    const auto slot = std::prev(oldest.base());
    detail::CacheEntry entry = slot->entry;
    erase(slot);
    return entry;
  }
  dropped = slots_.back().entry;
  erase(std::prev(slots_.end()));
  ++counters_.evictions;
  return nullptr;
}

GraphCache::Impl::Placed GraphCache::Impl::place(const detail::GraphKey& key, detail::CacheEntry& dropped) {
  Placed placed;
  if (slots_.size() == capacity_) placed.entry = make_room(key.plan, dropped);
  if (placed.entry == nullptr) placed.entry = std::make_shared<detail::CachedGraph>();
  // Nobody else has the entry, so this succeeds; waiting for it would be the wrong order of the two locks.
  placed.use = std::unique_lock(placed.entry->mutex, std::try_to_lock);
  placed.entry->is_fitted = false;
  Slots slot;
  slot.push_front({key, placed.entry});
  slot_of_.emplace(key, slot.begin());
  slots_.splice(slots_.begin(), slot);
  return placed;
}

void GraphCache::Impl::fit(const detail::GraphKey& key, const detail::CacheEntry& entry, const Executor& executor) {
  try {
    Graph::Counters before;
    Graph::Counters after;
    if (entry->graph) {
      before = entry->graph->counters();
      entry->graph->update(key.arguments);
      after = entry->graph->counters();
    } else {
      entry->graph.emplace(executor, key.arguments);
    }
    entry->is_fitted = true;
    const std::lock_guard lock(mutex_);
    counters_.updates += after.updates - before.updates;
    counters_.rebuilds += after.rebuilds - before.rebuilds;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    const auto found = slot_of_.find(key);
    if (found != slot_of_.end() && found->second->entry == entry) erase(found->second);
    throw;
  }
}

void GraphCache::Impl::launch(const Executor& executor, const CallArguments& arguments, hipStream_t stream) {
  const detail::ExecutorState& state = *executor.state();
  const detail::GraphKey key{detail::PlanKey(state), arguments};
  bool is_checked = false;
  for (;;) {
    detail::CacheEntry dropped;
    Placed placed;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      placed.entry = find(key);
      is_new = placed.entry == nullptr && is_checked;
      if (is_new) placed = place(key, dropped);
      if (is_new || placed.entry != nullptr) ++(is_new ? counters_.misses : counters_.hits);
    }
    if (placed.entry == nullptr) {
      // First of all, so that no graph has to make room for a call that is refused.
      detail::check_launch(state, arguments, stream);
      is_checked = true;
      continue;
    }
    dropped.reset();
    if (is_new) {
      fit(key, placed.entry, executor);
    } else {
      placed.use = std::unique_lock(placed.entry->mutex);
    }
    // Whoever was to fit it may have failed.
    if (placed.entry->is_fitted) return placed.entry->graph->launch(stream);
  }
}

void GraphCache::Impl::clear() {
  Slots slots;
  const std::lock_guard lock(mutex_);
  slot_of_.clear();
  slots.swap(slots_);
}

GraphCache::GraphCache(std::size_t capacity) : impl_(std::make_unique<Impl>(capacity)) {}
GraphCache::~GraphCache() = default;
GraphCache::GraphCache(GraphCache&&) noexcept = default;
GraphCache& GraphCache::operator=(GraphCache&&) noexcept = default;

void GraphCache::launch(const Executor& executor, const CallArguments& arguments, hipStream_t stream) {
  impl_->launch(executor, arguments, stream);
}
GraphCache::Counters GraphCache::counters() const { return impl_->counters(); }
std::size_t GraphCache::size() const { return impl_->size(); }
std::size_t GraphCache::capacity() const noexcept { return impl_->capacity(); }
void GraphCache::clear() { impl_->clear(); }

}  // namespace fmhax
