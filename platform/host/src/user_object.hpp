// User objects: a destructor that runs when the last reference, of the application or of a graph, is given up.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace hiphost {

class Runtime;

class UserObject {
 public:
  UserObject(void* data_, hipHostFn_t destroy_, unsigned references_)
      : data(data_), destroy(destroy_), references(references_), owned(references_) {}

  void* const data;
  hipHostFn_t const destroy;
  std::size_t references;  // all of them; guarded by the runtime's lock
  std::size_t owned;       // those of the application
};

// References that a graph or an executable holds. Copies hold as many of their own.
class UserObjectRefs {
 public:
  explicit UserObjectRefs(Runtime& rt) : rt_(&rt) {}
  UserObjectRefs(const UserObjectRefs& other);
  UserObjectRefs& operator=(const UserObjectRefs&) = delete;
  ~UserObjectRefs();

  void add(UserObject& object, std::size_t count);
  std::size_t count(const UserObject& object) const;
  // The caller becomes the holder of `count` of the references; that must not exceed what is held.
  void take(UserObject& object, std::size_t count);
  void add_all(const UserObjectRefs& other);

 private:
  Runtime* rt_;
  std::vector<std::pair<UserObject*, std::size_t>> objects_;
};

// Gives up references under the runtime's lock; the destructor follows later, on a service thread.
void drop_references(Runtime& rt, UserObject& object, std::size_t count);

}  // namespace hiphost
