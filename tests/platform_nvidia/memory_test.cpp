#include <numeric>

#include "hip_compat.hpp"
#include "support.hpp"

using namespace test;

namespace {

hipPointerAttribute_t attributes_of(const void* pointer) {
  hipPointerAttribute_t attributes{};
  attributes.device = 12345;
  REQUIRE_OK(hipPointerGetAttributes(&attributes, pointer));
  return attributes;
}

int current_device() {
  int device = -1;
  REQUIRE_OK(hipGetDevice(&device));
  return device;
}

void check_device_memory(std::byte* pointer) {
  const hipPointerAttribute_t attributes = attributes_of(pointer);
  CHECK(attributes.type == hipMemoryTypeDevice);
  CHECK(attributes.device == current_device());
  CHECK(attributes.devicePointer == pointer);
  CHECK(attributes.hostPointer == nullptr);
  CHECK(attributes.isManaged == 0);
  CHECK(fmhax::detail::is_device_memory(attributes));
  CHECK_FALSE(fmhax::detail::is_managed_memory(attributes));
}

void check_host_memory(std::byte* pointer) {
  const hipPointerAttribute_t attributes = attributes_of(pointer);
  CHECK(attributes.type == hipMemoryTypeHost);
  CHECK(attributes.hostPointer == pointer);
  CHECK(attributes.devicePointer != nullptr);
  CHECK(attributes.isManaged == 0);
  CHECK_FALSE(fmhax::detail::is_device_memory(attributes));
}

void check_unknown_memory(const void* pointer) {
  const hipPointerAttribute_t attributes = attributes_of(pointer);
  CHECK(attributes.type == hipMemoryTypeUnregistered);
  CHECK(attributes.device == hipInvalidDeviceId);
  CHECK(attributes.isManaged == 0);
  CHECK_FALSE(fmhax::detail::is_device_memory(attributes));
}

}  // namespace

TEST_CASE("device memory is known as such, from its first byte to its last") {
  std::byte* memory = nullptr;
  REQUIRE_OK(hipMalloc(&memory, 1000));
  check_device_memory(memory);
  check_device_memory(memory + 999);
  CHECK_OK(hipFree(memory));
  CHECK_OK(hipFree(nullptr));
}

TEST_CASE("memory of a stream's order is device memory") {
  const Stream stream;
  std::byte* memory = nullptr;
  REQUIRE_OK(hipMallocAsync(&memory, 1000, stream));
  check_device_memory(memory);
  CHECK_OK(hipFreeAsync(memory, stream));
  stream.wait();
}

TEST_CASE("managed memory is device memory of its own kind, for the host too") {
  std::byte* memory = nullptr;
  REQUIRE_OK(hipMallocManaged(&memory, 1000));
  const hipPointerAttribute_t attributes = attributes_of(memory + 10);
  CHECK(attributes.type == hipMemoryTypeManaged);
  CHECK(attributes.devicePointer == memory + 10);
  CHECK(attributes.hostPointer == memory + 10);
  CHECK(fmhax::detail::is_device_memory(attributes));
  CHECK(fmhax::detail::is_managed_memory(attributes));
  REQUIRE_OK(hipMemset(memory, 0x5A, 1000));
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK(memory[999] == std::byte{0x5A});
  CHECK_OK(hipFree(memory));
}

TEST_CASE("pinned and registered memory is host memory") {
  std::byte* pinned = nullptr;
  REQUIRE_OK(hipHostMalloc(&pinned, 1000, hipHostMallocPortable | hipHostMallocMapped));
  check_host_memory(pinned);
  check_host_memory(pinned + 999);
  CHECK_OK(hipHostFree(pinned));

  std::vector<std::byte> pageable(1 << 16);
  REQUIRE_OK(hipHostRegister(pageable.data(), pageable.size(), hipHostRegisterDefault));
  check_host_memory(pageable.data() + 100);
  CHECK_OK(hipHostUnregister(pageable.data()));
  check_unknown_memory(pageable.data() + 100);
}

TEST_CASE("memory that the runtime has never seen is unregistered, and no error") {
  const int on_the_stack = 0;
  check_unknown_memory(&on_the_stack);
  check_unknown_memory(nullptr);
  CHECK_OK(hipGetLastError());
}

TEST_CASE("bytes go to the device and come back, from pageable and from pinned memory") {
  constexpr std::size_t kCount = 100000;
  const Stream stream;
  const DeviceWords first(kCount), second(kCount);
  Words sent(kCount), received(kCount);
  std::iota(sent.begin(), sent.end(), 1U);
  REQUIRE_OK(hipMemcpy(first.data(), sent.data(), first.bytes(), hipMemcpyHostToDevice));
  REQUIRE_OK(hipMemcpyAsync(second.data(), first.data(), first.bytes(), hipMemcpyDeviceToDevice, stream));
  REQUIRE_OK(hipMemcpyAsync(received.data(), second.data(), first.bytes(), hipMemcpyDeviceToHost, stream));
  stream.wait();
  CHECK(received == sent);

  const PinnedWords there(kCount), back(kCount);
  there.fill(42);
  REQUIRE_OK(hipMemcpyAsync(first.data(), there.data(), there.bytes(), hipMemcpyHostToDevice, stream));
  REQUIRE_OK(hipMemcpyAsync(back.data(), first.data(), back.bytes(), hipMemcpyDefault, stream));
  stream.wait();
  CHECK(back.read() == Words(kCount, 42));
  CHECK_OK(hipMemcpy(received.data(), there.data(), there.bytes(), hipMemcpyHostToHost));
  CHECK(received == Words(kCount, 42));
}

TEST_CASE("a copy into pinned memory does not wait for its stream") {
  const Stream stream;
  const DeviceWords device(16);
  const PinnedWords pinned(16);
  pinned.fill(9);
  Gate gate(stream);
  REQUIRE_OK(hipMemcpyAsync(pinned.data(), device.data(), pinned.bytes(), hipMemcpyDeviceToHost, stream));
  CHECK(pinned.read() == Words(16, 9));
  gate.open();
  stream.wait();
  CHECK(pinned.read() == Words(16, 0));
}
