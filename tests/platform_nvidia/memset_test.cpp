#include "support.hpp"

using namespace test;

namespace {

constexpr std::size_t kCount = 1003;
constexpr int kValue = static_cast<int>(0x8BADF00DU);

/// All but the first and the last word are to be set.
hipError_t set_inner(const DeviceWords& words, int value, hipStream_t stream) {
  return hipMemsetD32Async(words.data() + 1, value, kCount - 2, stream);
}

Words inner(std::uint32_t value) {
  Words words(kCount, value);
  words.front() = words.back() = 0;
  return words;
}

}  // namespace

TEST_CASE("a set of bytes sets bytes") {
  const Stream stream;
  const DeviceWords words(kCount);
  REQUIRE_OK(hipMemsetAsync(words.data() + 1, 0xA5, (kCount - 2) * sizeof(std::uint32_t), stream));
  stream.wait();
  CHECK(words.read() == inner(0xA5A5A5A5));
}

TEST_CASE("a 32-bit set sets words, on a stream and on the default one") {
  const Stream stream;
  const DeviceWords words(kCount);
  REQUIRE_OK(set_inner(words, kValue, stream));
  stream.wait();
  CHECK(words.read() == inner(0x8BADF00D));
  REQUIRE_OK(set_inner(words, -1, nullptr));
  REQUIRE_OK(hipStreamSynchronize(nullptr));
  CHECK(words.read() == inner(0xFFFFFFFF));
}

TEST_CASE("a 32-bit set takes its place in the stream's order") {
  const Stream stream;
  const DeviceWords words(kCount);
  REQUIRE_OK(set_inner(words, 1, stream));  // whatever the first set loads is not to wait for the gate
  stream.wait();
  Gate gate(stream);
  REQUIRE_OK(set_inner(words, kValue, stream));
  CHECK_IS(hipStreamQuery(stream), hipErrorNotReady);
  (void)hipGetLastError();
  REQUIRE_OK(hipMemsetAsync(words.data() + 1, 1, (kCount - 2) * sizeof(std::uint32_t), stream));
  gate.open();
  stream.wait();
  CHECK(words.read() == inner(0x01010101));
}

TEST_CASE("a 32-bit set may be the first thing that a thread asks of the device") {
  const Stream stream;
  const DeviceWords words(kCount);
  hipError_t on_stream = hipErrorUnknown, on_default = hipErrorUnknown;
  std::thread([&] { on_stream = set_inner(words, kValue, stream); }).join();
  CHECK_OK(on_stream);
  stream.wait();
  CHECK(words.read() == inner(0x8BADF00D));
  std::thread([&] { on_default = set_inner(words, 1, nullptr); }).join();
  CHECK_OK(on_default);
  REQUIRE_OK(hipStreamSynchronize(nullptr));
  CHECK(words.read() == inner(1));
}

TEST_CASE("a captured 32-bit set is one node that sets words with every launch") {
  const Stream stream;
  const DeviceWords words(kCount);
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  REQUIRE_OK(set_inner(words, kValue, stream));
  hipGraph_t captured = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &captured));
  const Graph graph(captured);
  REQUIRE(graph.node_count() == 1);
  hipGraphNode_t node = nullptr;
  std::size_t count = 1;
  REQUIRE_OK(hipGraphGetNodes(graph, &node, &count));
  hipGraphNodeType type{};
  REQUIRE_OK(hipGraphNodeGetType(node, &type));
  CHECK(type == hipGraphNodeTypeMemset);
  CHECK(words.read() == Words(kCount, 0));

  const Executable executable(graph);
  for (int launch = 0; launch < 2; ++launch) {
    REQUIRE_OK(hipMemset(words.data(), 0, words.bytes()));
    REQUIRE_OK(hipDeviceSynchronize());
    executable.run(stream);
    CHECK(words.read() == inner(0x8BADF00D));
  }
}

TEST_CASE("a 32-bit set of memory that is not the device's is refused") {
  const Stream stream;
  CHECK_IS(hipMemsetD32Async(nullptr, 1, 4, stream), hipErrorInvalidValue);
  stream.wait();
}
