// One backward problem in batch mode, run and timed whenever the caller says so: bench/compare_torch_cpu.py alternates
// it with another implementation in the same minutes.
//
//   fmhax_backward_runner BATCH NHEAD SEQLEN HDIM fp32|bf16|fp16 causal|full atomic|deterministic INPUTS OUTPUT
//
// INPUTS holds any number of sets of q, k, v, o, dout ([batch, nhead, seqlen, hdim], raw) and lse (fp32 [batch, nhead,
// seqlen]). For each line "run" on standard input it runs the next set, in turn, and prints the milliseconds from the
// enqueue to the end of the wait. At the end of input it runs the first set once more and writes dq, dk, dv to OUTPUT.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fmhax/fmhax.hpp"

namespace {

using namespace fmhax;

void check(hipError_t error) {
  if (error != hipSuccess) throw std::runtime_error(hipGetErrorName(error));
}

std::shared_ptr<std::byte> device_bytes(std::int64_t size) {
  void* memory = nullptr;
  check(hipMalloc(&memory, static_cast<std::size_t>(size)));
  return {static_cast<std::byte*>(memory), [](std::byte* allocated) { (void)hipFree(allocated); }};
}

Problem parse_problem(char** arguments) {
  const std::map<std::string, DataType> dtypes = {
      {"fp32", DataType::fp32}, {"fp16", DataType::fp16}, {"bf16", DataType::bf16}};
  const std::map<std::string, Mask> masks = {{"causal", Mask::causal()}, {"full", Mask::none()}};
  const std::map<std::string, bool> modes = {{"atomic", false}, {"deterministic", true}};
  Problem problem;
  problem.batch = std::stoll(arguments[1]);
  problem.nhead_q = problem.nhead_k = std::stoll(arguments[2]);
  problem.max_seqlen_q = problem.max_seqlen_k = std::stoll(arguments[3]);
  problem.hdim_q = problem.hdim_v = std::stoll(arguments[4]);
  problem.dtype = dtypes.at(arguments[5]);
  problem.mask = masks.at(arguments[6]);
  problem.is_deterministic = modes.at(arguments[7]);
  return problem;
}

class Runner {
 public:
  Runner(const Problem& problem, const std::string& inputs) : problem_(problem), executor_(problem) {
    tensor_bytes_ = rows_q(problem) * problem.nhead_q * problem.hdim_q * element_size(problem.dtype);
    rows_bytes_ = rows_q(problem) * problem.nhead_q * 4;
    std::ifstream file(inputs, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const std::int64_t set_bytes = 5 * tensor_bytes_ + rows_bytes_;
    const auto file_bytes = static_cast<std::int64_t>(bytes.size());
    if (file_bytes == 0 || file_bytes % set_bytes != 0) throw std::runtime_error(inputs + ": not a number of sets");
    inputs_ = device_bytes(file_bytes);
    check(hipMemcpy(inputs_.get(), bytes.data(), bytes.size(), hipMemcpyHostToDevice));
    outputs_ = device_bytes(3 * tensor_bytes_);
    d_ = device_bytes(rows_bytes_);
    if (executor_.workspace_size() > 0) workspace_ = device_bytes(executor_.workspace_size());
    for (std::int64_t at = 0; at < file_bytes; at += set_bytes) calls_.push_back(make_call(inputs_.get() + at));
  }

  double run_ms(std::size_t index) const {
    const auto begin = std::chrono::steady_clock::now();
    executor_.enqueue(calls_[index % calls_.size()], nullptr);
    check(hipStreamSynchronize(nullptr));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  void write_gradients(const std::string& path) const {
    std::vector<char> bytes(static_cast<std::size_t>(3 * tensor_bytes_));
    check(hipMemcpy(bytes.data(), outputs_.get(), bytes.size(), hipMemcpyDeviceToHost));
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
  }

  const char* kernel() const { return executor_.kernel_choice().entry().name; }

 private:
  CallArguments make_call(std::byte* inputs) const {
    const auto tensor = [&](std::byte* block, std::int64_t index) {
      return TensorView::bhsd(block + index * tensor_bytes_, problem_.dtype, problem_.batch, problem_.max_seqlen_q,
                              problem_.nhead_q, problem_.hdim_q);
    };
    const auto rows = [&](std::byte* data) {
      return TensorView::rows_bhs(reinterpret_cast<float*>(data), problem_.batch, problem_.nhead_q,
                                  problem_.max_seqlen_q);
    };
    CallArguments call;
    call.scale = 1.0F / std::sqrt(static_cast<float>(problem_.hdim_q));
    call.q = tensor(inputs, 0);
    call.k = tensor(inputs, 1);
    call.v = tensor(inputs, 2);
    call.o = tensor(inputs, 3);
    call.dout = tensor(inputs, 4);
    call.lse = rows(inputs + 5 * tensor_bytes_);
    call.d = rows(d_.get());
    call.dq = tensor(outputs_.get(), 0);
    call.dk = tensor(outputs_.get(), 1);
    call.dv = tensor(outputs_.get(), 2);
    call.workspace = workspace_.get();
    call.workspace_bytes = executor_.workspace_size();
    return call;
  }

  Problem problem_;
  Executor executor_;
  std::int64_t tensor_bytes_ = 0;
  std::int64_t rows_bytes_ = 0;
  std::shared_ptr<std::byte> inputs_, outputs_, d_, workspace_;
  std::vector<CallArguments> calls_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 10) throw std::invalid_argument("expects 9 arguments; see the head of its source");
  const Runner runner(parse_problem(argv), argv[8]);
  std::printf("ready %s\n", runner.kernel());
  std::fflush(stdout);
  std::size_t runs = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%.6f\n", runner.run_ms(runs++));
    std::fflush(stdout);
  }
  runner.run_ms(0);
  runner.write_gradients(argv[9]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "fmhax_backward_runner: %s\n", error.what());
  return 1;
}
