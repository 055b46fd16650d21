/// @file Executable graphs for calls that come back.
#pragma once

#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fmhax/executor.hpp"
#include "fmhax/graph.hpp"

namespace fmhax {

/// A bounded set of graphs, found by problem, kernel, options and arguments: launch() replays the graph that was made
/// for equal ones, and makes it where there is none. When the cache is full the least recently used graph of the same
/// plan is updated to the new arguments; where there is none, the least recently used of all is dropped. A graph that
/// is dropped or updated while in flight finishes as it was. Thread-safe: calls of different graphs don't wait for each
/// other, calls of one graph are ordered as Graph orders launches.
///
/// Two executors have the same plan when their problem, device, kernel and options are equal and they have no
/// allocators of the caller's; with allocators each Executor (and its copies) is a plan of its own. Arguments are equal
/// when every field is. Arguments without a workspace get one that belongs to the graph; arguments without a status get
/// none that could be read: give one where lengths may be bad.
class GraphCache {
 public:
  /// Holds at most `capacity` graphs. Throws Error(invalid_argument) when that is 0.
  explicit GraphCache(std::size_t capacity);
  ~GraphCache();
  GraphCache(GraphCache&&) noexcept;
  GraphCache& operator=(GraphCache&&) noexcept;
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /// Executor::enqueue by way of a graph; `stream` must not be capturing. Throws as Graph does; then nothing was
  /// enqueued and the cache holds no graph that was half made.
  void launch(const Executor& executor, const CallArguments& arguments, hipStream_t stream);

  struct Counters {
    std::int64_t hits = 0;       ///< a graph with equal arguments was there
    std::int64_t misses = 0;     ///< it was not: a graph was made or retargeted
    std::int64_t updates = 0;    ///< misses that changed an old graph in place
    std::int64_t rebuilds = 0;   ///< misses that retargeted an old graph by building its executable anew
    std::int64_t evictions = 0;  ///< graphs dropped for want of room
  };
  Counters counters() const;
  std::size_t size() const;
  std::size_t capacity() const noexcept;
  /// Drops every graph; the counters stay.
  void clear();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fmhax
