#include "explorer.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string_view>

#include "runtime.hpp"

namespace hiphost {
namespace {

std::atomic<Explorer*> active{nullptr};
std::atomic<std::uint64_t> last_epoch{0};

constexpr std::uint64_t kMostShuffledBlocks = 65536;

bool mentions(std::string_view function, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return function.find(word) != std::string_view::npos; });
}

bool asks_for_progress(std::string_view function) { return mentions(function, {"Query"}); }

// Calls that have nothing to do with the order of work. Leaving them out keeps a seed's schedule the same whether or
// not something had to be allocated, and gives the others more weight.
bool is_unordered(std::string_view function) {
  return mentions(function, {"Malloc", "Alloc", "Create", "Get", "Set", "Peek", "Exchange", "Register", "GraphAdd"});
}

}  // namespace

Explorer* exploring() noexcept { return active.load(std::memory_order_acquire); }
void set_exploring(Explorer* explorer) noexcept { active.store(explorer, std::memory_order_release); }

// The 64-bit mix of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t SeededRandom::next() noexcept {
  std::uint64_t x = state_ += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

Explorer::Explorer(Runtime& rt, std::uint64_t seed) : rt_(rt), seed_(seed), random_(seed), epoch_(++last_epoch) {
  constexpr Preference kPreferences[] = {Preference::any, Preference::any, Preference::newest, Preference::oldest};
  preference_ = kPreferences[random_.below(4)];
  // Never, so that as much as possible is open when the host waits, or often, so that much is already done.
  constexpr std::uint64_t kPauses[] = {0, 1, 3, 5};
  pauses_of_eight_ = kPauses[random_.below(4)];
}

void Explorer::pause(const char* function) noexcept {
  if (is_unordered(function)) return;
  // Who asks again and again must see something happen.
  const std::uint64_t chance =
      asks_for_progress(function) ? std::max<std::uint64_t>(pauses_of_eight_, 2) : pauses_of_eight_;
  const auto roll = [this] {
    const std::uint64_t n = rolls_.fetch_add(1, std::memory_order_relaxed);
    return SeededRandom(SeededRandom(~seed_).next() + n).below(8);
  };
  while (roll() < chance && rt_.scheduler.step()) {
  }
}

std::vector<std::uint64_t> Explorer::block_order(const KernelWork& kernel, std::uint64_t blocks) {
  if (blocks < 2 || blocks > kMostShuffledBlocks || !may_reorder_blocks(kernel)) return {};
  std::vector<std::uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  SeededRandom random(seed_ ^ blocks);
  for (std::uint64_t i = blocks; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

ExplorationReport Explorer::report() const {
  ExplorationReport report;
  report.seed = seed_;
  report.tasks = tasks_;
  report.schedule_hash = hash_;
  log_.report(report);
  return report;
}

void Explorer::add(Task& ready) noexcept { ready_.push_back(&ready); }

Task* Explorer::take(std::size_t) noexcept {
  if (ready_.empty()) return nullptr;
  std::size_t chosen = random_.below(ready_.size());
  if (preference_ != Preference::any && !random_.one_in(8)) {
    chosen = preference_ == Preference::newest ? ready_.size() - 1 : 0;
  }
  Task* const task = ready_[chosen];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(chosen));
  return task;
}

Trace& Explorer::trace_of(Task& task) {
  if (!task.trace_) {
    task.trace_ = std::make_unique<Trace>();
    task.trace_->sequence = ++last_sequence_;
    task.trace_->epoch = epoch_;
    ++open_;
  }
  return *task.trace_;
}

const Trace* Explorer::current_trace(const Task& task) const noexcept {
  return task.trace_ && task.trace_->epoch == epoch_ ? task.trace_.get() : nullptr;
}

void Explorer::add_knowledge(std::vector<std::uint64_t>& before, const Trace& of) const {
  NumberSet::add_all(before, of.before);
  if (of.number != 0) NumberSet::add(before, of.number);
}

void Explorer::submitted(Task& task) noexcept { NumberSet::add_all(trace_of(task).before, host_); }

void Explorer::ordered(const Task& before, Task& after) noexcept {
  Trace& trace = trace_of(after);
  if (const Trace* known = current_trace(before)) add_knowledge(trace.before, *known);
}

void Explorer::starting(Task& task) noexcept {
  Trace& trace = trace_of(task);
  ++tasks_;
  hash_ = (hash_ ^ trace.sequence) * 1099511628211ULL;
  const WorkTask* const work = task.as_work();
  if (work == nullptr) return;
  std::vector<Access> accesses;
  collect_accesses(work->work(), rt_.memory, accesses);
  if (!accesses.empty()) trace.number = log_.add(*work, std::move(accesses), trace.before, rt_.memory);
}

void Explorer::finished(Task& task) noexcept {
  const Trace& trace = trace_of(task);
  --open_;
  if (task.kind() != TaskKind::kUserCode) return;
  if (task.as_work() != nullptr) {
    // A function of the application may tell the host in its own ways that it ran.
    add_knowledge(host_, trace);
  } else {
    // A user object's destructor: all that used the object is done, and the host is told.
    for (std::uint32_t number = 1; number <= log_.count(); ++number) NumberSet::add(host_, number);
  }
}

void Explorer::observed(const Task& task) noexcept {
  const Trace* const trace = current_trace(task);
  if (trace == nullptr) return;
  add_knowledge(host_, *trace);
  if (open_ != 0 || NumberSet::count(host_) != log_.count()) return;
  // Everything so far comes before everything to come: nothing of it can race any more.
  epoch_ = ++last_epoch;
  host_.clear();
  log_.clear();
}

}  // namespace hiphost
