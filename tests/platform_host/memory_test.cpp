#include "support.hpp"

using test::Gate;

TEST_CASE("each pointer is known for what it is, inside its range too") {
  const test::Buffer<char> device(100), pinned(100, test::Where::kPinned), managed(100, test::Where::kManaged);
  char stack[100];
  hipPointerAttribute_t a;
  REQUIRE_OK(hipPointerGetAttributes(&a, device.get() + 50));
  CHECK_EQ(a.type, hipMemoryTypeDevice);
  CHECK_EQ(a.device, 0);
  CHECK_EQ(a.devicePointer, device.get() + 50);
  CHECK_EQ(a.hostPointer, nullptr);
  REQUIRE_OK(hipPointerGetAttributes(&a, pinned.get() + 99));
  CHECK_EQ(a.type, hipMemoryTypeHost);
  CHECK_EQ(a.hostPointer, pinned.get() + 99);
  CHECK_EQ(a.devicePointer, pinned.get() + 99);
  REQUIRE_OK(hipPointerGetAttributes(&a, managed.get()));
  CHECK_EQ(a.type, hipMemoryTypeManaged);
  CHECK_EQ(a.isManaged, 1);
  for (const void* unknown : {static_cast<const void*>(stack), static_cast<const void*>(device.get() + 100)}) {
    REQUIRE_OK(hipPointerGetAttributes(&a, unknown));
    CHECK_EQ(a.type, hipMemoryTypeUnregistered);
    CHECK_EQ(a.device, hipInvalidDeviceId);
  }
  CHECK_IS(hipPointerGetAttributes(&a, nullptr), hipErrorInvalidValue);
  CHECK_IS(hipPointerGetAttributes(nullptr, stack), hipErrorInvalidValue);
}

TEST_CASE("allocations are aligned, and sizes that can't be had are refused") {
  for (const std::size_t size : {1u, 255u, 257u, 4097u}) {
    const test::Buffer<char> buffer(size);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % 256, 0);
    void* base = nullptr;
    std::size_t length = 0;
    REQUIRE_OK(hipMemGetAddressRange(&base, &length, buffer.get() + size - 1));
    CHECK_EQ(base, buffer.get());
    CHECK_EQ(length, size);
  }
  void* pointer = &pointer;
  CHECK_OK(hipMalloc(&pointer, 0));
  CHECK_EQ(pointer, nullptr);
  CHECK_OK(hipFree(nullptr));
  CHECK_IS(hipMalloc(static_cast<void**>(nullptr), 1), hipErrorInvalidValue);
  CHECK_IS(hipMalloc(&pointer, ~std::size_t{0}), hipErrorOutOfMemory);
  CHECK_IS(hipHostMalloc(&pointer, 16, 0x10000), hipErrorInvalidValue);
}

TEST_CASE("memory is freed once, by the call of its kind, at its start") {
  char* device = nullptr;
  char* pinned = nullptr;
  REQUIRE_OK(hipMalloc(&device, 64));
  REQUIRE_OK(hipHostMalloc(&pinned, 64));
  CHECK_IS(hipFree(device + 1), hipErrorInvalidValue);
  CHECK_IS(hipHostFree(device), hipErrorInvalidValue);
  CHECK_IS(hipFree(pinned), hipErrorInvalidValue);
  CHECK_OK(hipFree(device));
  CHECK_IS(hipFree(device), hipErrorInvalidValue);
  CHECK_OK(hipHostFree(pinned));
  CHECK_IS(hipHostFree(pinned), hipErrorInvalidValue);
}

TEST_CASE("freeing waits for the device") {
  const test::Stream stream;
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  void* memory = nullptr;
  REQUIRE_OK(hipMalloc(&memory, 64));
  REQUIRE_OK(hipMemsetAsync(memory, 1, 64, stream));
  std::atomic<bool> freed{false};
  std::thread thread([&] {
    CHECK_OK(hipFree(memory));
    freed = true;
  });
  REQUIRE(test::eventually([&] { return gate.entered(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(freed.load());
  gate.open();
  thread.join();
}

TEST_CASE("stream-ordered memory lives until the stream reaches its free") {
  const test::Stream stream;
  Gate gate;
  int* memory = nullptr;
  REQUIRE_OK(hipMallocAsync(&memory, 16 * sizeof(int), stream));
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  REQUIRE_OK(hipMemsetAsync(memory, 1, 16 * sizeof(int), stream));
  REQUIRE_OK(hipFreeAsync(memory, stream));
  CHECK_IS(hipFreeAsync(memory, stream), hipErrorInvalidValue);
  CHECK_IS(hipMemsetAsync(memory, 1, 16, stream), hipErrorInvalidValue);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
  hipPointerAttribute_t a;
  REQUIRE_OK(hipPointerGetAttributes(&a, memory));
  CHECK_EQ(a.type, hipMemoryTypeUnregistered);
}

TEST_CASE("free memory is counted") {
  std::size_t before = 0, during = 0, total = 0;
  REQUIRE_OK(hipMemGetInfo(&before, &total));
  CHECK_LE(before, total);
  {
    const test::Buffer<char> buffer(1 << 20);
    REQUIRE_OK(hipMemGetInfo(&during, nullptr));
    CHECK_EQ(before - during, std::size_t{1} << 20);
  }
  REQUIRE_OK(hipMemGetInfo(&during, nullptr));
  CHECK_EQ(before, during);
}

TEST_CASE("registered host memory is pinned until it is unregistered") {
  std::vector<char> host(4096);
  hipPointerAttribute_t a;
  REQUIRE_OK(hipHostRegister(host.data(), host.size(), hipHostRegisterDefault));
  REQUIRE_OK(hipPointerGetAttributes(&a, host.data() + 4095));
  CHECK_EQ(a.type, hipMemoryTypeHost);
  CHECK_IS(hipHostRegister(host.data() + 10, 5, 0), hipErrorHostMemoryAlreadyRegistered);
  CHECK_IS(hipHostFree(host.data()), hipErrorInvalidValue);
  void* device = nullptr;
  CHECK_OK(hipHostGetDevicePointer(&device, host.data() + 7, 0));
  CHECK_EQ(device, host.data() + 7);
  CHECK_OK(hipHostUnregister(host.data()));
  CHECK_IS(hipHostUnregister(host.data()), hipErrorHostMemoryNotRegistered);
  CHECK_IS(hipHostGetDevicePointer(&device, host.data(), 0), hipErrorInvalidValue);
  CHECK_IS(hipHostRegister(nullptr, 5, 0), hipErrorInvalidValue);
  CHECK_IS(hipHostRegister(host.data(), 0, 0), hipErrorInvalidValue);
}

TEST_CASE("host memory remembers its flags") {
  void* memory = nullptr;
  REQUIRE_OK(hipHostMalloc(&memory, 64, hipHostMallocMapped | hipHostMallocPortable));
  unsigned flags = 0;
  CHECK_OK(hipHostGetFlags(&flags, memory));
  CHECK_EQ(flags, static_cast<unsigned>(hipHostMallocMapped | hipHostMallocPortable));
  CHECK_OK(hipHostFree(memory));
}
