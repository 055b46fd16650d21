#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "captured_graph.hpp"
#include "trainer.hpp"

namespace fmhax::train::test {
namespace {

/// Sentences of other lengths, from 1 byte to 150: more than one key tile of every kernel.
const std::vector<std::string>& sentences() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made;
    const std::string words = "the graph is captured once, and replayed for every other batch of documents; ";
    for (const std::size_t length : std::vector<std::size_t>{1, 2, 7, 15, 31, 64, 90, 130, 149, 150}) {
      std::string text;
      while (text.size() < length) text += words.substr(length % 11);
      made.push_back(text.substr(0, length));
    }
    return made;
  }();
  return texts;
}

/// What attention can compute in here.
std::vector<DataType> dtypes() {
  const DataType usual = default_attention_dtype();
  return usual == DataType::bf16 ? std::vector{usual} : std::vector{usual, DataType::bf16};
}

/// The most that attention's o and gradients may be off fp64.
double tolerance_of(DataType dtype) { return dtype == DataType::bf16 ? 1e-2 : 1e-5; }

TrainingConfig small_config(DataType dtype = default_attention_dtype()) {
  return {.model = {.layers = 2, .width = 32, .heads = 2, .attention_dtype = dtype},
          .batch = {.tokens = 320, .max_documents = 8, .longest = 150},
          .optimizer = {.learning_rate = 1e-2F, .warmup_steps = 2, .total_steps = 5},
          .seed = 3};
}

std::vector<std::string_view> documents() { return {sentences().begin(), sentences().end()}; }

RunResult run_steps(Mode mode, DataType dtype, std::int64_t steps = 5) {
  TrainingConfig config = small_config(dtype);
  config.optimizer.total_steps = steps;
  TrainingStep step(config, documents());
  return run(step, {.mode = mode, .steps = steps, .gradient_checks = 2});
}

std::vector<std::uint32_t> loss_bits(const RunResult& result) {
  std::vector<std::uint32_t> bits;
  for (const StepRecord& record : result.records) bits.push_back(std::bit_cast<std::uint32_t>(record.loss));
  return bits;
}

TEST_CASE("five replays of one graph and five eager steps give the same bits") {
  for (const DataType dtype : dtypes()) {
    CAPTURE(to_string(dtype));
    const RunResult graph = run_steps(Mode::graph, dtype);
    const RunResult eager = run_steps(Mode::eager, dtype);
    REQUIRE(graph.records.size() == 5);
    CHECK(graph.graph_builds == 1);
    CHECK(graph.replays == 5);
    CHECK(graph.graph_nodes > 60);
    CHECK(eager.graph_builds == 0);
    CHECK(eager.replays == 0);
    CHECK(graph.distinct_batches >= 4);
    CHECK(loss_bits(graph) == loss_bits(eager));
    CHECK(graph.parameters == eager.parameters);
    CHECK(graph.max_error.gradient > 0.0);
    CHECK(graph.max_error.gradient <= tolerance_of(dtype));
    CHECK(graph.max_error.output > 0.0);
    CHECK(graph.max_error.output <= tolerance_of(dtype));
    for (std::size_t i = 0; i < graph.records.size(); ++i) {
      CHECK(graph.records[i].step == static_cast<std::int64_t>(i) + 1);
      CHECK(std::isfinite(graph.records[i].loss));
    }
    CHECK(graph.records[0].loss != graph.records[1].loss);
  }
}

TEST_CASE("with 16-bit attention the losses are those of fp32 within its tolerance") {
  if (dtypes().size() < 2) return;  // the device has no fp32 attention
  const RunResult wide = run_steps(Mode::graph, DataType::fp32, 20);
  const RunResult narrow16 = run_steps(Mode::graph, DataType::bf16, 20);
  REQUIRE(wide.records.size() == narrow16.records.size());
  CHECK(loss_bits(wide) != loss_bits(narrow16));
  for (std::size_t i = 0; i < wide.records.size(); ++i) {
    CHECK(narrow16.records[i].loss == doctest::Approx(wide.records[i].loss).epsilon(0.01));
  }
}

TEST_CASE("the model learns: the loss of 60 steps on ten sentences falls below half") {
  for (const DataType dtype : dtypes()) {
    CAPTURE(to_string(dtype));
    const RunResult result = run_steps(Mode::graph, dtype, 60);
    REQUIRE(result.records.size() == 60);
    CHECK(result.records.back().loss < 0.5F * result.records.front().loss);
  }
}

/// The device's bytes as floats.
std::vector<float> read_back(const DeviceBuffer<float>& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.count()));
  check(hipMemcpy(values.data(), buffer.data(), values.size() * sizeof(float), hipMemcpyDeviceToHost), "hipMemcpy");
  return values;
}

void check_every_slope(const TrainingConfig& config) {
  const Model model(config.model, config.batch, config.seed);
  Loader loader(documents(), config.batch, config.seed, 1);
  std::vector<std::int32_t> block(static_cast<std::size_t>(BatchView::block_size(config.batch)));
  loader.load(BatchView::of_block(config.batch, block.data()));
  const DeviceBuffer<std::int32_t> device_block(BatchView::block_size(config.batch));
  upload(device_block.data(), block);
  const BatchView batch = BatchView::of_block(config.batch, device_block.data());
  const double targets = *BatchView::of_block(config.batch, block.data()).target_count;

  const Stream stream;
  const auto loss_at = [&](const std::vector<float>& parameters) {
    upload(model.parameters().data(), parameters);
    model.enqueue_forward(batch, stream.get());
    model.enqueue_backward(batch, stream.get());
    stream.wait();
    double sum = 0;
    for (const float loss : read_back(model.row_loss())) sum += static_cast<double>(loss);
    return sum / targets;
  };
  const std::vector<float> at = read_back(model.parameters());
  CHECK(loss_at(at) == doctest::Approx(std::log(256.0)).epsilon(0.3));
  const std::vector<float> gradient = read_back(model.gradients());

  // Along the gradient of one parameter group at a time the slope is that gradient's length.
  const auto check_slope = [&](const char* name, const Span& span) {
    CAPTURE(name);
    const auto first = gradient.begin() + span.offset;
    double squares = 0;
    for (auto g = first; g != first + span.count(); ++g) squares += static_cast<double>(*g) * static_cast<double>(*g);
    const double length = std::sqrt(squares);
    REQUIRE(length > 1e-4);
    const double step = std::min(0.02, 0.02 / length);
    const auto moved = [&](double distance) {
      std::vector<float> parameters = at;
      for (std::int64_t i = span.offset; i < span.offset + span.count(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        parameters[k] += static_cast<float>(distance * static_cast<double>(gradient[k]) / length);
      }
      return parameters;
    };
    const double slope = (loss_at(moved(step)) - loss_at(moved(-step))) / (2.0 * step);
    CHECK(slope == doctest::Approx(length).epsilon(config.model.attention_dtype == DataType::bf16 ? 0.05 : 0.01));
  };
  const ParameterLayout& layout = model.layout();
  check_slope("token_table", layout.token_table);
  check_slope("position_table", layout.position_table);
  check_slope("final_gain", layout.final_gain);
  for (const ParameterLayout::Layer& layer : layout.layers) {
    check_slope("qkv", layer.qkv);
    check_slope("attention_out", layer.attention_out);
    check_slope("up", layer.up);
    check_slope("down", layer.down);
    check_slope("attention_gain", layer.attention_gain);
    check_slope("mlp_gain", layer.mlp_gain);
  }
}

TEST_CASE("the gradient of every parameter is the slope of the loss") {
  for (const DataType dtype : dtypes()) {
    CAPTURE(to_string(dtype));
    check_every_slope(small_config(dtype));
  }
}

TEST_CASE("documents of a batch do not see one another, and the unused rows change nothing") {
  const TrainingConfig config = small_config();
  const Model model(config.model, config.batch, config.seed);
  const Stream stream;
  std::vector<std::int32_t> block(static_cast<std::size_t>(BatchView::block_size(config.batch)));
  const BatchView host = BatchView::of_block(config.batch, block.data());
  const std::string text(145, 'q');
  Loader({text}, config.batch, 1, 1).load(host);  // the same document twice, and 30 rows are left
  const DeviceBuffer<std::int32_t> device(BatchView::block_size(config.batch));
  const BatchView batch = BatchView::of_block(config.batch, device.data());
  const auto row_losses = [&] {
    upload(device.data(), block);
    model.enqueue_forward(batch, stream.get());
    model.enqueue_backward(batch, stream.get());
    stream.wait();
    return read_back(model.row_loss());
  };
  const auto losses = row_losses();
  for (std::size_t t = 0; t < 145; ++t) CHECK(losses[t] == doctest::Approx(losses[145 + t]).epsilon(1e-4));
  CHECK(std::all_of(losses.begin() + 290, losses.end(), [](float loss) { return loss == 0.0F; }));

  std::fill(host.tokens, host.tokens + 145, 'x');
  std::fill(host.tokens + 290, host.tokens + 320, 'y');
  const auto with_others = row_losses();
  CHECK(std::equal(losses.begin() + 145, losses.end(), with_others.begin() + 145));
  CHECK(losses[0] != with_others[0]);
}

TEST_CASE("a capture that throws leaves the stream usable") {
  const Stream stream;
  const auto throws = [](hipStream_t) { throw std::runtime_error("no"); };
  CHECK_THROWS_WITH_AS(CapturedGraph(stream.get(), throws), "no", std::runtime_error);
  TrainingStep step(small_config(), documents());
  step.enqueue(stream.get());
  stream.wait();
  CHECK(step.log().take_published().size() == 1);
}

TEST_CASE("the log gives every record once and says so when some were lost") {
  const Stream stream;
  StepLog log;
  DeviceBuffer<StepRecord> record(1);
  const auto publish = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      const StepRecord value{.step = i};
      upload(record.data(), {value});
      log.enqueue(record.data(), stream.get());
      stream.wait();
    }
  };
  CHECK(log.take_published().empty());
  publish(0, StepLog::kRing - 3);
  CHECK(log.take_published().size() == StepLog::kRing - 3);
  publish(100, 5);  // over the ring's end
  const auto records = log.take_published();
  REQUIRE(records.size() == 5);
  for (std::int64_t i = 0; i < 5; ++i) CHECK(records[static_cast<std::size_t>(i)].step == 100 + i);
  CHECK(log.take_published().empty());
  publish(200, StepLog::kRing + 1);
  CHECK_THROWS_AS(log.take_published(), std::logic_error);
}

TEST_CASE("model shapes that attention can't run are refused by name") {
  const BatchShape batch = small_config().batch;
  CHECK_THROWS_WITH_AS(Model({.layers = 0, .width = 32, .heads = 2}, batch, 1), doctest::Contains("layers"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Model({.layers = 1, .width = 36, .heads = 3}, batch, 1), doctest::Contains("multiple of 8"),
                       std::invalid_argument);
}

}  // namespace
}  // namespace fmhax::train::test
