#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>

#include "support.hpp"

namespace {

struct Large {
  int values[100];
};

void write_position(int* out) {
  const auto& b = hiphost::block_idx();
  const auto& t = hiphost::thread_idx();
  const auto& g = hiphost::grid_dim();
  const auto& d = hiphost::block_dim();
  const std::uint32_t block = (b.z * g.y + b.y) * g.x + b.x;
  const std::uint32_t thread = (t.z * d.y + t.y) * d.x + t.x;
  out[block * (d.x * d.y * d.z) + thread] += static_cast<int>(block * 1000 + thread);
}

void sum_large(int* out, Large large, double factor, char last) {
  int sum = last;
  for (const int value : large.values) sum += value;
  out[0] = static_cast<int>(sum * factor);
}

void use_shared(int* out, int count) {
  auto* shared = static_cast<int*>(hiphost::dynamic_shared());
  for (int i = 0; i < count; ++i) shared[i] = static_cast<int>(hiphost::block_idx().x) + i;
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += shared[i];
  out[hiphost::block_idx().x] = sum;
}

void throw_in_block(int which) {
  if (static_cast<int>(hiphost::block_idx().x) == which) throw std::runtime_error("kernel");
}

void barrier() { hiphost_syncthreads(); }
void no_arguments() {}
void never_registered(int) {}

std::mutex ids_mutex;
std::set<std::thread::id> ids;
void note_thread() {
  {
    const std::lock_guard lock(ids_mutex);
    ids.insert(std::this_thread::get_id());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Waits for the block before it, which is allowed since blocks start in order.
void chain(std::atomic<int>* done) {
  const int self = static_cast<int>(hiphost::block_idx().x);
  while (done->load() != self) std::this_thread::yield();
  done->store(self + 1);
}

void wait_for_flag(std::atomic<int>* flag) {
  (void)test::eventually([flag] { return flag->load() != 0; });
}

void* untyped(void (*f)(int)) { return reinterpret_cast<void*>(f); }

}  // namespace

TEST_CASE("a kernel runs once for each thread of each block") {
  const test::Buffer<int> out(2 * 3 * 4 * 2 * 3 * 2, test::Where::kManaged);
  const test::Stream stream;
  constexpr int kThreads = 2 * 3 * 2, kBlocks = 2 * 3 * 4;
  REQUIRE_OK(hipMemsetAsync(out, 0, kBlocks * kThreads * sizeof(int), stream));
  REQUIRE_OK(hiphost::launch(write_position, dim3(2, 3, 4), dim3(2, 3, 2), 0, stream, out.get()));
  REQUIRE_OK(hipStreamSynchronize(stream));
  for (int i = 0; i < kBlocks * kThreads; ++i) CHECK_EQ(out.get()[i], i / kThreads * 1000 + i % kThreads);
}

TEST_CASE("arguments are copied at launch, large and odd ones too") {
  const test::Buffer<int> out(1, test::Where::kManaged);
  const test::Stream stream;
  test::Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, test::Gate::host_function, &gate));
  Large large;
  std::fill(std::begin(large.values), std::end(large.values), 3);
  int* pointer = out;
  double factor = 2;
  char last = 5;
  void* args[] = {&pointer, &large, &factor, &last};
  REQUIRE_OK(hipLaunchKernel(hiphost::kernel(sum_large), 1, 1, args, 0, stream));
  large = {};
  factor = 0;
  pointer = nullptr;
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(out.get()[0], 610);
}

TEST_CASE("each block has its dynamic shared memory") {
  const test::Buffer<int> out(500, test::Where::kManaged);
  const test::Stream stream;
  REQUIRE_OK(hiphost::launch(use_shared, 500, 1, 100 * sizeof(int), stream, out.get(), 100));
  REQUIRE_OK(hipStreamSynchronize(stream));
  for (int i = 0; i < 500; ++i) CHECK_EQ(out.get()[i], 100 * i + 4950);
}

TEST_CASE("launches outside HIP's limits are refused") {
  int value = 0;
  void* args[] = {&value};
  const void* kernel = hiphost::kernel(throw_in_block);
  const hipError_t wrong = hipErrorInvalidConfiguration;
  CHECK_IS(hipLaunchKernel(kernel, dim3(0, 1, 1), 1, args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, 1, dim3(1, 0, 1), args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, dim3(1, 65536, 1), 1, args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, dim3(1, 1, 65536), 1, args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, 1, 1025, args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, 1, dim3(32, 33, 1), args, 0, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, 1, 1, args, 1 << 20, nullptr), wrong);
  CHECK_IS(hipLaunchKernel(kernel, 1, 1, nullptr, 0, nullptr), hipErrorInvalidValue);
  CHECK_IS(hipLaunchKernel(untyped(never_registered), 1, 1, args, 0, nullptr), hipErrorInvalidDeviceFunction);
  CHECK_IS(hipLaunchKernel(nullptr, 1, 1, args, 0, nullptr), hipErrorInvalidDeviceFunction);
  CHECK_IS(hipLaunchKernel(kernel, 1, 1, args, 0, test::garbage_stream()), hipErrorContextIsDestroyed);
  CHECK_OK(hipLaunchKernel(hiphost::kernel(no_arguments), 1, 1, nullptr, 0, nullptr));
  CHECK_OK(hipDeviceSynchronize());
}

TEST_CASE("registering from many threads gives one handle") {
  std::vector<std::thread> threads;
  std::vector<void*> handles(8);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    threads.emplace_back([&, i] { handles[i] = hiphost::kernel(note_thread); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const void* handle : handles) CHECK_EQ(handle, handles[0]);
}

TEST_CASE("blocks are spread over the pool") {
  const test::Stream stream;
  int processors = 0;
  REQUIRE_OK(hipDeviceGetAttribute(&processors, hipDeviceAttributeMultiprocessorCount, 0));
  for (int attempt = 0; attempt < 20; ++attempt) {
    REQUIRE_OK(hiphost::launch(note_thread, 64, 1, 0, stream));
    REQUIRE_OK(hipStreamSynchronize(stream));
    const std::lock_guard lock(ids_mutex);
    if (static_cast<int>(ids.size()) >= processors) break;
  }
  CHECK_GE(static_cast<int>(ids.size()), processors);
}

TEST_CASE("a block may wait for the block before it") {
  const test::Stream stream;
  std::atomic<int> done{0};
  REQUIRE_OK(hiphost::launch(chain, 100, 1, 0, stream, &done));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(done.load(), 100);
}

TEST_CASE("kernels that wait for the host leave room for other streams") {
  static constexpr int kStreams = 12;
  std::atomic<int> flag{0};
  std::vector<std::unique_ptr<test::Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<test::Stream>());
    REQUIRE_OK(hiphost::launch(wait_for_flag, 1, 1, 0, *streams.back(), &flag));
  }
  const test::Stream other;
  REQUIRE_OK(hipLaunchHostFunc(other, test::count_call, &flag));
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_EQ(flag.load(), 1);
}

TEST_CASE("a kernel that throws is a launch failure") {
  const test::Stream stream;
  REQUIRE_OK(hiphost::launch(throw_in_block, 100, 1, 0, stream, 57));
  CHECK_IS(hipStreamSynchronize(stream), hipErrorLaunchFailure);
  REQUIRE_OK(hipDeviceReset());
  REQUIRE_OK(hiphost::launch(barrier, 2, 1, 0, stream));
  CHECK_OK(hipStreamSynchronize(stream));
  REQUIRE_OK(hiphost::launch(barrier, 2, 2, 0, stream));
  CHECK_IS(hipStreamSynchronize(stream), hipErrorLaunchFailure);
  REQUIRE_OK(hipDeviceReset());
}

TEST_CASE("kernel attributes and occupancy are answered for registered functions") {
  hipFuncAttributes attributes;
  CHECK_OK(hipFuncGetAttributes(&attributes, hiphost::kernel(no_arguments)));
  CHECK_EQ(attributes.maxThreadsPerBlock, 1024);
  CHECK_IS(hipFuncGetAttributes(&attributes, untyped(never_registered)), hipErrorInvalidDeviceFunction);
  CHECK_OK(hipFuncSetAttribute(hiphost::kernel(no_arguments), hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
  int blocks = 0;
  CHECK_OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hiphost::kernel(no_arguments), 1, 0));
  CHECK_EQ(blocks, 1);
}
