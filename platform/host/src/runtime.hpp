// The one runtime of the process: devices, the registries that make every handle checkable, and the parts that work.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "block_pool.hpp"
#include "memory.hpp"
#include "scheduler.hpp"
#include "stream.hpp"

namespace hiphost {

class Capture;
class Exec;
class Graph;
struct Node;
class UserObject;

// Handles that are alive. A handle is looked up, never dereferenced before.
template <class T, class Handle>
class Registry {
 public:
  Handle add(T* object) {
    objects_.insert(object);
    return reinterpret_cast<Handle>(object);
  }
  T* find(Handle handle) const {
    const auto it = objects_.find(reinterpret_cast<T*>(handle));
    return it == objects_.end() ? nullptr : *it;
  }
  bool contains(const T* object) const { return objects_.count(const_cast<T*>(object)) != 0; }
  void remove(T* object) { objects_.erase(object); }
  std::size_t size() const { return objects_.size(); }

 private:
  std::unordered_set<T*> objects_;
};

class Runtime {
 public:
  Runtime();

  Scheduler scheduler;
  BlockPool pool;
  MemoryMap memory;
  std::vector<std::unique_ptr<Device>> devices;

  // Guards everything below, and streams, events, captures, graphs and executables. Never held while code of the
  // application runs; the scheduler's and the memory map's locks are taken inside it.
  AdaptiveMutex mutex;
  Registry<Stream, hipStream_t> streams;
  Registry<Event, hipEvent_t> events;
  Registry<Graph, hipGraph_t> graphs;
  Registry<Node, hipGraphNode_t> nodes;
  Registry<Exec, hipGraphExec_t> execs;
  Registry<UserObject, hipUserObject_t> user_objects;
  std::vector<Capture*> captures;   // begun and not ended
  std::uint64_t last_id = 0;        // of captures, graphs and nodes
  std::vector<Task*> predecessors;  // of the task being appended; kept for its capacity

  void shutdown();
};

using Lock = std::unique_lock<AdaptiveMutex>;

// Created on first use. Its threads end when static objects are destroyed; calls made later still work, except that
// nothing is executed any more.
Runtime& runtime();

// What HIP keeps for each host thread.
struct ThreadState {
  int device = 0;
  hipError_t last_error = hipSuccess;
  hipError_t last_result = hipSuccess;
  hipStreamCaptureMode capture_mode = hipStreamCaptureModeGlobal;
  int host_function_depth = 0;
};

inline constinit thread_local ThreadState thread_state{};

// Marks this thread as running a host function or a destructor of a user object.
class HostFunctionScope {
 public:
  HostFunctionScope() { ++thread_state.host_function_depth; }
  ~HostFunctionScope() { --thread_state.host_function_depth; }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

Device& current_device(Runtime& rt);

// The stream that a handle means on this thread; null if there is none.
Stream* find_stream(Runtime& rt, hipStream_t handle);

}  // namespace hiphost
