/// The program itself, started as a user would.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace fmhax::train::test {
namespace {

using Json = nlohmann::json;

const std::string kProgram = FMHAX_TRAIN_PROGRAM;
constexpr bool kHasFp32 = FMHAX_TRAIN_HAS_FP32;  ///< attention kernels for it
const std::string kSmallModel = " --steps 8 --layers 1 --width 16 --heads 2 --tokens 300 --longest 150";

sample::ProgramRun run(const std::string& arguments) { return sample::run_program(kProgram + arguments + " 2>&1"); }

/// What a run prints on stderr goes elsewhere, so that stdout shows alone.
Json summary(const std::string& arguments) {
  const sample::ProgramRun result = sample::run_program(kProgram + kSmallModel + arguments + " 2>/dev/null");
  REQUIRE(result.exit_status == 0);
  REQUIRE(result.lines.size() == 1);
  return Json::parse(result.lines.front());
}

bool mentions(const sample::ProgramRun& result, const std::string& text) {
  for (const std::string& line : result.lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("train ends with one JSON line that compares the replayed run with the eager one") {
  const auto picture = std::filesystem::temp_directory_path() / "fmhax-train-program-test.svg";
  std::filesystem::remove(picture);
  const Json line = summary(" --svg " + picture.string());
  CHECK(line.at("steps") == 8);
  CHECK(line.at("graph_builds") == 1);
  CHECK(line.at("replays") == 8);
  CHECK(line.at("losses_equal") == true);
  CHECK(line.at("distinct_batches") >= 7);
  CHECK(line.at("last_loss") < line.at("first_loss"));
  CHECK(line.at("host_us_per_step_graph") > 0.0);
  CHECK(line.at("host_us_per_step_eager") > 0.0);
  CHECK(line.at("max_grad_error") > 0.0);
  CHECK(line.at("max_grad_error") <= (kHasFp32 ? 1e-5 : 1e-2));
  CHECK(line.at("max_loss_difference").is_null());

  std::ifstream in(picture);
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(svg.find("one graph, replayed") != std::string::npos);
  CHECK(svg.find("enqueued in every step") != std::string::npos);
  std::filesystem::remove(picture);
}

TEST_CASE("one run alone says null where the other would speak, and the same seed gives the same losses") {
  const Json graph = summary(" --graph");
  const Json eager = summary(" --eager --gradient-checks 0");
  CHECK(graph.at("host_us_per_step_eager").is_null());
  CHECK(graph.at("losses_equal").is_null());
  CHECK(eager.at("graph_builds").is_null());
  CHECK(eager.at("replays").is_null());
  CHECK(eager.at("max_grad_error").is_null());
  CHECK(graph.at("last_loss") == eager.at("last_loss"));
  CHECK(summary(" --graph --seed 2").at("last_loss") != graph.at("last_loss"));
}

TEST_CASE("losses are written, and compared with those of another run") {
  const auto file = std::filesystem::temp_directory_path() / "fmhax-train-program-test.txt";
  const std::string same = " --graph --gradient-checks 0 --dtype bf16";
  summary(same + " --losses " + file.string());
  CHECK(summary(same + " --compare " + file.string() + " --tolerance 1e-6").at("max_loss_difference") <= 1e-6);
  const sample::ProgramRun other =
      run(kSmallModel + same + " --seed 2 --compare " + file.string() + " --tolerance 1e-6");
  CHECK(other.exit_status == 1);
  CHECK(mentions(other, "away from"));
  CHECK(run(" --steps 9 --graph --gradient-checks 0 --layers 1 --width 16 --heads 2 --compare " + file.string())
            .exit_status == 2);
  std::filesystem::remove(file);
}

TEST_CASE("wrong options are named, and nothing is trained") {
  CHECK(run(" --help").exit_status == 0);
  for (const auto& [arguments, named] :
       {std::pair{" --width 20 --heads 2", "--heads"}, std::pair{" --longest 2000 --tokens 1000", "--longest"},
        std::pair{" --steps 0", "--steps"}, std::pair{" --graph --eager", "--eager"},
        std::pair{" --dtype int8", "--dtype"}, std::pair{" --tolerance 0.1", "--tolerance"},
        std::pair{" --learning-rate -1", "--learning-rate"}, std::pair{" --text /no/such/file", "/no/such/file"},
        std::pair{" --text /dev/null", "/dev/null"}}) {
    CAPTURE(arguments);
    const sample::ProgramRun result = run(arguments);
    CHECK(result.exit_status != 0);
    CHECK(mentions(result, named));
    CHECK(!mentions(result, "tokens/s"));
  }
}

}  // namespace
}  // namespace fmhax::train::test
