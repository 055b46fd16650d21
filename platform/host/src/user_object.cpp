#include "user_object.hpp"

#include <algorithm>

#include "api.hpp"
#include "graph.hpp"

namespace hiphost {
namespace {

void run_destructor(const UserObject& object) noexcept {
  const HostFunctionScope scope;
  object.destroy(object.data);
}

class DestructorTask final : public Task {
 public:
  explicit DestructorTask(UserObject& object) : Task(TaskKind::kUserCode), object_(&object) {}
  const char* name() const noexcept override { return "user object destructor"; }

 protected:
  void execute() noexcept override { run_destructor(*object_); }
  void retired() noexcept override { delete object_; }

 private:
  UserObject* object_;
};

// Gives up references of the application's own, in its own call. The last one's destructor runs before that returns.
hipError_t release_now(Runtime& rt, Lock& lock, UserObject& object, std::size_t count) {
  object.references -= count;
  if (object.references != 0) return hipSuccess;
  const std::unique_ptr<UserObject> last(&object);
  rt.user_objects.remove(&object);
  lock.unlock();
  run_destructor(object);
  return hipSuccess;
}

}  // namespace

void drop_references(Runtime& rt, UserObject& object, std::size_t count) {
  object.references -= count;
  if (object.references != 0) return;
  // Not on this thread: it holds the runtime's lock, and the application didn't ask it for a destructor.
  const Ref<Task> task = make_ref<DestructorTask>(object);
  if (rt.scheduler.submit(*task, {})) rt.user_objects.remove(&object);
}

UserObjectRefs::UserObjectRefs(const UserObjectRefs& other) : rt_(other.rt_) { add_all(other); }

UserObjectRefs::~UserObjectRefs() {
  for (auto& [object, count] : objects_) drop_references(*rt_, *object, count);
}

void UserObjectRefs::add(UserObject& object, std::size_t count) {
  for (auto& [known, held] : objects_) {
    if (known != &object) continue;
    held += count;
    return;
  }
  objects_.emplace_back(&object, count);
}

std::size_t UserObjectRefs::count(const UserObject& object) const {
  for (const auto& [known, held] : objects_) {
    if (known == &object) return held;
  }
  return 0;
}

void UserObjectRefs::take(UserObject& object, std::size_t count) {
  for (auto& entry : objects_) {
    if (entry.first == &object) entry.second -= count;
  }
  std::erase_if(objects_, [](const auto& entry) { return entry.second == 0; });
}

void UserObjectRefs::add_all(const UserObjectRefs& other) {
  for (const auto& [object, count] : other.objects_) {
    add(*object, count);  // may run out of memory, and then holds none
    object->references += count;
  }
}

}  // namespace hiphost

using namespace hiphost;

extern "C" {

hipError_t hipUserObjectCreate(hipUserObject_t* object_out, void* ptr, hipHostFn_t destroy,
                               unsigned int initialRefcount, unsigned int flags) {
  FMHAX_HIP_API({
    if (object_out == nullptr || destroy == nullptr || initialRefcount == 0) return hipErrorInvalidValue;
    if (flags != hipUserObjectNoDestructorSync) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    auto object = std::make_unique<UserObject>(ptr, destroy, initialRefcount);
    Lock lock(rt.mutex);
    *object_out = rt.user_objects.add(object.get());
    (void)object.release();
    return hipSuccess;
  });
}

hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    UserObject* target = rt.user_objects.find(object);
    if (target == nullptr || count == 0) return hipErrorInvalidValue;
    target->references += count;
    target->owned += count;
    return hipSuccess;
  });
}

hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    UserObject* target = rt.user_objects.find(object);
    if (target == nullptr || count == 0 || count > target->owned) return hipErrorInvalidValue;
    target->owned -= count;
    return release_now(rt, lock, *target, count);
  });
}

hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count, unsigned int flags) {
  FMHAX_HIP_API({
    if (count == 0 || (flags != 0 && flags != hipGraphUserObjectMove)) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Graph* target = rt.graphs.find(graph);
    UserObject* retained = rt.user_objects.find(object);
    if (target == nullptr || retained == nullptr) return hipErrorInvalidValue;
    // HIP accepts moving more than the caller owns; the rest is retained anew.
    const std::size_t moved = flags == hipGraphUserObjectMove ? std::min<std::size_t>(count, retained->owned) : 0;
    target->user_objects.add(*retained, count);
    retained->owned -= moved;
    retained->references += count - moved;
    return hipSuccess;
  });
}

hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Graph* target = rt.graphs.find(graph);
    UserObject* released = rt.user_objects.find(object);
    if (target == nullptr || released == nullptr || count == 0) return hipErrorInvalidValue;
    if (count > target->user_objects.count(*released)) return hipErrorInvalidValue;
    target->user_objects.take(*released, count);
    return release_now(rt, lock, *released, count);
  });
}

}  // extern "C"
