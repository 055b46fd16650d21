#include "options.hpp"

#include <cstdlib>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "device_check/device_check.h"

namespace fmhax::train {
namespace {

constexpr const char* kDescription = R"(Trains a small transformer on English text, byte by byte.

Every step trains on other documents, packed one after another; attention sees each document alone. A step (loading,
upload, forward, backward through fmhax, AdamW) is captured into one HIP graph and replayed. Then the same steps run
again without a graph, from the same start; the losses must be equal bit for bit. Progress goes to stderr.
The last line on stdout is JSON:

  first_loss, last_loss   mean cross-entropy, in nats per byte, of the first and the last 10 steps (of a quarter of
                          the run when it has less than 40)
  steps, replays          steps of one run; launches of the graph
  graph_builds            captures
  graph_nodes             operations of one step
  distinct_batches        batches whose documents have different lengths
  host_us_per_step_graph  median time for which a step keeps the calling thread, replayed
  host_us_per_step_eager  the same, enqueued anew
  tokens_per_second       trained on, by the graph run or else by the eager run
  losses_equal            graph and eager: the losses of all steps, and the final parameters, bit for bit
  max_grad_error          ||g - ref|| / ||ref||, the largest over dq, dk, dv of every layer in the checked steps,
                          against fp64 from the same q, k, v, o, lse, d_o
  max_output_error        the same of attention's output o, against fp64 from the same q, k, v
  max_loss_difference     |loss - other| / other, the largest over all steps, with --compare

What only the other mode can tell is null with --eager or --graph.
The exit status is 0 only if the losses that were compared are equal, those of --compare within --tolerance.)";

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  TrainingConfig& config = options.config;
  std::int64_t steps = config.optimizer.total_steps;
  bool only_graph = false;
  bool only_eager = false;

  CLI::App app{kDescription, "train"};
  app.get_formatter()->column_width(36);
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text_files,
                 "text files to train on; default: the licence texts of Debian's base-files")
      ->type_name("FILE");
  app.add_option("--steps", steps, "steps of a run")->check(CLI::Range(4, 1000000));
  auto* graph = app.add_flag("--graph", only_graph, "only the run with the graph");
  app.add_flag("--eager", only_eager, "only the run without a graph")->excludes(graph);
  app.add_option("--svg", options.svg_file, "write the loss curve to this file")->type_name("FILE");
  app.add_option("--losses", options.losses_file, "write the loss of every step to this file")->type_name("FILE");
  auto* compare = app.add_option("--compare", options.compare_file, "compare with the losses that --losses wrote")
                      ->type_name("FILE")
                      ->check(CLI::ExistingFile);
  auto* tolerance =
      app.add_option("--tolerance", options.tolerance,
                     "how far a loss may be from the other run's, relative; default: 0.01, with bf16 0.04")
          ->check(CLI::PositiveNumber)
          ->default_str("")
          ->needs(compare);
  app.add_option("--seed", config.seed, "of the parameters and of the documents' order");

  const char* model = "Model";
  app.add_option("--layers", config.model.layers)->check(CLI::Range(1, 64))->group(model);
  app.add_option("--width", config.model.width, "of the residual stream")->check(CLI::Range(8, 4096))->group(model);
  app.add_option("--heads", config.model.heads, "width / heads must be a multiple of 8, at most 256")
      ->check(CLI::Range(1, 512))
      ->group(model);

  const std::map<std::string, DataType> dtypes{{"fp32", DataType::fp32}, {"bf16", DataType::bf16}};
  auto* dtype = app.add_option("--dtype", config.model.attention_dtype,
                               "of attention's tensors; default: fp32 if the device has it")
                    ->transform(CLI::CheckedTransformer(dtypes))
                    ->default_str("")
                    ->group(model);

  const char* batch = "Batch (the capacity of the graph)";
  app.add_option("--tokens", config.batch.tokens, "bytes of a batch at most")
      ->check(CLI::Range(16, 1 << 20))
      ->group(batch);
  app.add_option("--longest", config.batch.longest, "bytes of a document at most; longer paragraphs are cut")
      ->check(CLI::Range(2, 1 << 16))
      ->group(batch);
  app.add_option("--max-documents", config.batch.max_documents, "documents of a batch at most")
      ->check(CLI::Range(1, 1 << 16))
      ->group(batch);

  const char* optimizer = "Optimiser (AdamW)";
  app.add_option("--learning-rate", config.optimizer.learning_rate, "at its peak")
      ->check(CLI::PositiveNumber)
      ->group(optimizer);
  app.add_option("--warmup", config.optimizer.warmup_steps, "steps until the peak")
      ->check(CLI::Range(1, 1000000))
      ->group(optimizer);
  app.add_option("--weight-decay", config.optimizer.weight_decay)->check(CLI::NonNegativeNumber)->group(optimizer);
  app.add_option("--gradient-checks", options.gradient_checks, "steps whose attention gradients are compared with fp64")
      ->check(CLI::Range(0, 1000000))
      ->group(optimizer);

  try {
    app.parse(argc, argv);
    if (config.batch.longest > config.batch.tokens) {
      throw CLI::ValidationError("--longest", "a document must fit into a batch (--tokens)");
    }
    if (config.model.width % config.model.heads != 0 || (config.model.width / config.model.heads) % 8 != 0) {
      throw CLI::ValidationError("--heads", "width / heads must be a multiple of 8");
    }
    if (config.model.width / config.model.heads > 256) {
      throw CLI::ValidationError("--heads", "width / heads must be at most 256");
    }
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (!require_device("train")) std::exit(kNoDeviceStatus);
  if (dtype->count() == 0) config.model.attention_dtype = default_attention_dtype();
  // On the CPU alone a run in bf16 ends up 3.2 % away from one in fp32 (the default model, 600 steps).
  if (tolerance->count() == 0 && config.model.attention_dtype == DataType::bf16) options.tolerance = 0.04;
  config.optimizer.total_steps = steps;
  options.runs_graph = !only_eager;
  options.runs_eager = !only_graph;
  return options;
}

}  // namespace fmhax::train
