#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "fmhax/executor.hpp"
#include "problem_flags.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

struct PlanFlags {
  ProblemFlags problem;
  bool prints_dot = false;
  bool prints_json = false;
};

/// The workspace's parts in bytes.
struct WorkspaceParts {
  std::int64_t metadata = 0;
  std::int64_t dq_acc = 0;       ///< for the given lengths
  std::int64_t rectangular = 0;  ///< what dq_acc as [batch, nhead_q, nsplits, max_seqlen_q, hdim_q] would take
  std::int64_t capacity = 0;     ///< enough for every set of lengths within the capacity
  std::int64_t total() const { return metadata + dq_acc; }
};

WorkspaceParts parts_of(const Executor& executor, const verification::Case& c) {
  const WorkspaceSpec& spec = executor.workspace_spec();
  WorkspaceParts parts;
  parts.metadata = workspace_host_size(spec, c.problem.batch);
  const std::int64_t total = c.problem.is_group_mode
                                 ? executor.workspace_size(c.lengths.q.seqstart.data(), c.lengths.k.seqstart.data())
                                 : executor.workspace_size();
  parts.dq_acc = total - parts.metadata;
  parts.rectangular = rectangular_workspace_size(spec, c.problem);
  parts.capacity = executor.workspace_size();
  return parts;
}

std::vector<std::int64_t> splits_of(const Executor& executor, const verification::Case& c) {
  const WorkspaceSpec& spec = executor.workspace_spec();
  std::vector<std::int64_t> splits;
  for (std::int64_t i = 0; i < (c.problem.is_group_mode ? c.problem.batch : 1); ++i) {
    const auto& starts = c.lengths.k.seqstart;
    const auto at = static_cast<std::size_t>(i);
    splits.push_back(
        split_count(spec, c.problem, c.problem.is_group_mode ? starts[at + 1] - starts[at] : c.problem.max_seqlen_k));
  }
  return splits;
}

json to_json(const Executor& executor, const verification::Case& c) {
  const WorkspaceParts parts = parts_of(executor, c);
  const KernelChoice& choice = executor.kernel_choice();
  json candidates = json::array();
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const Candidate& candidate = choice.candidates[i];
    json row{{"name", candidate.entry.name}, {"chosen", i == choice.chosen}};
    if (candidate.unsupported_reason.empty()) {
      row["rank"] = candidate.rank;
    } else {
      row["unsupported_reason"] = candidate.unsupported_reason;
    }
    candidates.push_back(row);
  }
  const WorkspaceSpec& spec = executor.workspace_spec();
  json nodes = json::array();
  const std::string text = executor.describe_nodes();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    nodes.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return {{"problem", to_string(c.problem)},
          {"device", {{"arch", executor.device().arch}, {"multiprocessors", executor.device().multiprocessors}}},
          {"kernel", choice.entry().name},
          {"candidates", candidates},
          {"spec",
           {{"kN0", spec.kN0},
            {"workers", spec.workers},
            {"is_persistent", spec.is_persistent},
            {"writes_dq_directly", spec.writes_dq_directly},
            {"needs_zero_dq_acc", spec.needs_zero_dq_acc},
            {"has_tile_list", spec.has_tile_list},
            {"can_bound_splits", spec.can_bound_splits},
            {"max_splits", spec.max_splits}}},
          {"nsplits", splits_of(executor, c)},
          {"workspace",
           {{"metadata_bytes", parts.metadata},
            {"dq_acc_bytes", parts.dq_acc},
            {"total_bytes", parts.total()},
            {"capacity_bytes", parts.capacity},
            {"rectangular_bytes", parts.rectangular}}},
          {"nodes", nodes}};
}

void print_text(const Executor& executor, const verification::Case& c) {
  fmt::print("problem      {}\n", to_string(c.problem));
  fmt::print("device       {}, {} multiprocessors\n\n", executor.device().arch, executor.device().multiprocessors);

  fmt::print("kernels (of those that can run it, the highest rank wins)\n");
  const KernelChoice& choice = executor.kernel_choice();
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const Candidate& candidate = choice.candidates[i];
    const std::string verdict = candidate.unsupported_reason.empty() ? fmt::format("rank {}", candidate.rank)
                                                                     : "no: " + candidate.unsupported_reason;
    fmt::print("  {} {:<28} {}\n", i == choice.chosen ? '*' : ' ', candidate.entry.name, verdict);
  }

  const WorkspaceParts parts = parts_of(executor, c);
  fmt::print("\nworkspace (bytes)\n");
  if (executor.workspace_spec().writes_dq_directly) {
    fmt::print("  none: this kernel writes dq directly\n");
  } else {
    fmt::print("  {:<34} {:>16}\n", "metadata (nsplits, dq_acc_offsets)", parts.metadata);
    fmt::print("  {:<34} {:>16}   splits {}\n", "dq_acc", parts.dq_acc, fmt::join(splits_of(executor, c), ","));
    fmt::print("  {:<34} {:>16}\n", "total", parts.total());
    fmt::print("  {:<34} {:>16}   the total is {:.1f}% of it\n", "rectangular layout instead", parts.rectangular,
               parts.rectangular > 0
                   ? 100.0 * static_cast<double>(parts.total()) / static_cast<double>(parts.rectangular)
                   : 100.0);
    if (c.problem.is_group_mode) {
      fmt::print("  {:<34} {:>16}   enough for every batch within the capacity\n", "bound", parts.capacity);
    }
  }
  fmt::print("\nnodes\n{}", executor.describe_nodes());
}

int run(const PlanFlags& flags) {
  const verification::Case c = flags.problem.to_case();
  const Executor executor(c.problem, flags.problem.executor_options());
  if (flags.prints_dot) {
    fmt::print("{}", executor.dot());
  } else if (flags.prints_json) {
    fmt::print("{}\n", to_json(executor, c).dump(2));
  } else {
    print_text(executor, c);
  }
  return 0;
}

}  // namespace

Command add_plan(CLI::App& application) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* app = application.add_subcommand(
      "plan", "Show which kernel a problem gets and why, its workspace in bytes, and the nodes of one call");
  flags->problem.add_to(*app);
  CLI::Option* dot = app->add_flag("--dot", flags->prints_dot, "Print the nodes as a Graphviz digraph, and only that");
  app->add_flag("--json", flags->prints_json, "Print everything as JSON")->excludes(dot);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace fmhax::tool
