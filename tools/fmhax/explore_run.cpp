#include "explore_run.hpp"

#include <hiphost/fault.hpp>

#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "executor/executor_state.hpp"
#include "executor/node_list.hpp"
#include "executor/staging_pool.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;

constexpr std::size_t kMostFindings = 5;

detail::NodeKind kind_of(const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < detail::kNodeKinds; ++i) {
    const auto kind = static_cast<detail::NodeKind>(i);
    if (name == to_string(kind)) return kind;
    known += known.empty() ? "" : ", ";
    known += to_string(kind);
  }
  throw std::invalid_argument(fmt::format("no node is called '{}'; there are {}", name, known));
}

detail::StagingPool& pool() { return detail::StagingPool::of_device(0); }

/// What is lent out when nothing is in flight.
std::size_t lent_staging() {
  pool().take_back_given_up();
  pool().collect();
  return pool().counters().in_use;
}

/// A function's name as programs write it: HIP 6 headers redefine some names to versioned ones.
std::string source_name(std::string call) {
  constexpr std::string_view kVersion = "R0600";
  if (call.ends_with(kVersion)) call.resize(call.size() - kVersion.size());
  return call;
}

bool starts_with_node(const std::string& task, const std::string& node) { return task.starts_with(node + " ("); }

/// Calls that end the life of something: when they fail, it lives on, and nobody can help that.
bool releases(const std::string& call) {
  for (const char* word : {"Destroy", "Free", "Release"}) {
    if (call.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

bool names_edge(const hiphost::Race& race, const Edge& edge) {
  return (starts_with_node(race.first, edge.before) && starts_with_node(race.second, edge.after)) ||
         (starts_with_node(race.first, edge.after) && starts_with_node(race.second, edge.before));
}

void ScenarioSummary::add(const SeedResult& result) {
  ++schedules;
  distinct.insert(result.report.schedule_hash);
  tasks += result.report.tasks;
  races += result.report.race_count + result.report.freed_accesses.size();
  mismatches += !result.mismatch.empty();
  leaks += !result.leak.empty();
  errors += !result.error.empty();
  const auto note = [&](const std::string& text) {
    if (text.empty() || findings.size() >= kMostFindings) return;
    findings.push_back(fmt::format("seed {}: {}", result.report.seed, text));
  };
  for (const hiphost::Race& race : result.report.races) note(to_string(race));
  for (const hiphost::FreedAccess& access : result.report.freed_accesses) note(to_string(access));
  note(result.mismatch);
  note(result.leak);
  note(result.error);
}

Explorations::Explorations(const Edge* dropped_edge) {
  if (dropped_edge != nullptr) detail::drop_dependency(kind_of(dropped_edge->before), kind_of(dropped_edge->after));
  scenarios_ = make_scenarios(world_);
  if (dropped_edge != nullptr) return;
  // Whatever is made at first use is made now, so that all runs of a seed are alike.
  for (const auto& scenario : scenarios_) (void)run(*scenario, 0);
}

Explorations::~Explorations() { detail::restore_dependencies(); }

std::vector<Edge> Explorations::edges() const {
  std::vector<Edge> edges;
  std::set<std::string> seen;
  for (const ExploredCall* call : world_.all()) {
    detail::NodeList list;
    const detail::ExecutorState& state = *call->executor().state();
    state.build_node_list(call->arguments(), {.path = state.options.metadata_path}, list);
    for (const detail::Node& node : list.nodes()) {
      for (std::size_t i = 0; i < detail::kNodeKinds; ++i) {
        const auto before = static_cast<detail::NodeKind>(i);
        if (!contains(node.dependencies, before)) continue;
        const Edge edge{to_string(before), to_string(node.kind)};
        if (seen.insert(edge.before + ":" + edge.after).second) edges.push_back(edge);
      }
    }
  }
  return edges;
}

void Explorations::forget_results() {
  for (ExploredCall* call : world_.all()) call->forget_results();
}

std::string Explorations::mismatch() const {
  for (const ExploredCall* call : world_.all()) {
    if (std::string found = call->mismatch(); !found.empty()) return found;
  }
  return {};
}

SeedResult Explorations::run(Scenario& scenario, std::uint64_t seed) {
  SeedResult result;
  const std::size_t lent = lent_staging();
  forget_results();
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  {
    hiphost::Exploration exploration(seed);
    try {
      scenario.run(world_, random);
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    result.report = exploration.finish();
  }
  if (result.error.empty()) result.mismatch = mismatch();
  if (const std::size_t now = lent_staging(); now != lent) {
    result.leak = fmt::format("{} blocks of staging are lent out at rest, {} before", now, lent);
  }
  return result;
}

void Explorations::call_everything_again() {
  // Right away, on one stream that comes after what the scenario's streams were left with.
  hipStream_t stream = world_.streams.front().get();
  for (const verification::OwnedStream& other : world_.streams) {
    hipEvent_t event = nullptr;
    check_hip(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreateWithFlags");
    check_hip(hipEventRecord(event, other.get()), "hipEventRecord");
    check_hip(hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent");
    check_hip(hipEventDestroy(event), "hipEventDestroy");
  }
  world_.allocators.stream = stream;
  for (ExploredCall* call : world_.all()) {
    call->upload(0, stream);
    call->executor().enqueue(call->arguments(), stream);
    call->download(0, stream);
  }
}

bool Explorations::try_fault(Scenario& scenario, const Fault& fault, FaultSummary& summary) {
  const std::size_t lent = lent_staging();
  const hiphost::LiveObjects alive = hiphost::live_objects();
  const std::size_t blocks = pool().counters().blocks;
  forget_results();
  std::string failed, thrown;
  bool is_right_error = false;
  hiphost::ExplorationReport report;
  const auto note = [&](const std::string& what) { summary.findings.push_back({fault.point, failed, what}); };
  {
    hiphost::FaultInjection faults({.call = fault.of == Fault::Of::hip ? fault.point : 0});
    faults.suspend();
    world_.faults = &faults;
    world_.allocators = {};
    if (fault.of != Fault::Of::hip) world_.allocators.failing_call = fault.point;
    world_.allocators.throws = fault.of == Fault::Of::allocator_throws;
    hiphost::Exploration exploration(fault.seed);
    std::mt19937 random(static_cast<std::uint32_t>(fault.seed));
    try {
      scenario.run(world_, random);
    } catch (const ExploredWorld::AllocatorFailure& error) {
      thrown = error.what();
      is_right_error = fault.of == Fault::Of::allocator_throws;
    } catch (const Error& error) {
      thrown = error.what();
      is_right_error =
          fault.of == Fault::Of::allocator_null
              ? error.code() == ErrorCode::out_of_memory
              : faults.failed() != nullptr && thrown.find(source_name(faults.failed())) != std::string::npos;
    } catch (const std::exception& error) {
      thrown = error.what();
    }
    world_.faults = nullptr;
    const bool allocator_failed = world_.allocators.failed;
    world_.allocators = {};
    if (faults.failed() == nullptr && !allocator_failed) return false;
    failed = faults.failed() != nullptr ? faults.failed() : "allocator";
    if (!thrown.empty()) {
      if (!is_right_error) note("the error does not name the call: " + thrown);
      forget_results();
    }
    (void)hipGetLastError();
    try {
      if (!thrown.empty()) call_everything_again();
    } catch (const std::exception& error) {
      note(fmt::format("the next call failed too: {}", error.what()));
    }
    report = exploration.finish();
  }
  for (const hiphost::Race& race : report.races) note(to_string(race));
  for (const hiphost::FreedAccess& access : report.freed_accesses) note(to_string(access));
  if (const std::string difference = mismatch(); !difference.empty()) {
    note((thrown.empty() ? "no error, but " : "after the error, ") + difference);
  }
  if (const std::size_t kept = lent_staging() - lent; kept > 0) {
    note(fmt::format("{} blocks of staging are not given back", kept));
  }
  hiphost::LiveObjects now = hiphost::live_objects();
  if (pool().counters().blocks > blocks) {  // the pool grew, which is no leak
    now.events = alive.events;
    now.allocations = alive.allocations;
  }
  if (!(now == alive) && !releases(failed)) {
    note(fmt::format("left behind: {} streams, {} events, {} graphs, {} executables, {} user objects, {} allocations",
                     now.streams - alive.streams, now.events - alive.events, now.graphs - alive.graphs,
                     now.executables - alive.executables, now.user_objects - alive.user_objects,
                     now.allocations - alive.allocations));
  }
  if (const SeedResult again = run(scenario, fault.seed); !again.passed()) {
    ScenarioSummary texts;
    texts.add(again);
    for (const std::string& text : texts.findings) note("the next run: " + text);
  }
  return true;
}

FaultSummary Explorations::run_faults(Scenario& scenario, std::uint64_t seed) {
  FaultSummary summary;
  summary.name = scenario.name();
  for (std::uint64_t n = 1; try_fault(scenario, {Fault::Of::hip, n, seed}, summary); ++n) ++summary.hip_calls;
  for (const Fault::Of of : {Fault::Of::allocator_throws, Fault::Of::allocator_null}) {
    for (std::uint64_t n = 1; try_fault(scenario, {of, n, seed}, summary); ++n) ++summary.allocator_calls;
  }
  return summary;
}

}  // namespace fmhax::tool
