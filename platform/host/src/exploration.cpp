#include <hiphost/explore.hpp>

#include "explorer.hpp"
#include "runtime.hpp"

namespace hiphost {
namespace {

void wait_for_everything(Runtime& rt) {
  std::vector<Ref<Task>> tasks;
  {
    const Lock lock(rt.mutex);
    for (const auto& device : rt.devices) {
      for (Ref<Task>& task : unfinished_work(*device)) tasks.push_back(std::move(task));
    }
  }
  for (const Ref<Task>& task : tasks) rt.scheduler.wait(*task);
}

}  // namespace

Exploration::Exploration(std::uint64_t seed) : explorer_(std::make_unique<Explorer>(runtime(), seed)) {
  Runtime& rt = runtime();
  wait_for_everything(rt);
  rt.memory.set_exploring(true);
  rt.scheduler.set_stepper(explorer_.get());
  set_exploring(explorer_.get());
}

Exploration::~Exploration() {
  Runtime& rt = runtime();
  (void)finish();
  set_exploring(nullptr);
  rt.scheduler.set_stepper(nullptr);
  rt.memory.set_exploring(false);
}

ExplorationReport Exploration::finish() {
  Runtime& rt = runtime();
  // Destructors of user objects are on no stream, so waiting alone would leave them.
  while (rt.scheduler.step()) {
  }
  wait_for_everything(rt);
  return explorer_->report();
}

}  // namespace hiphost
