// A guest device's memory, properties and launches; a program of its own, since a guest comes before all else.
#include <hiphost/guest.hpp>
#include <hiphost/kernel.hpp>

#include <cstdlib>
#include <cstring>
#include <map>

#include <doctest/doctest.h>

namespace {

class Guest final : public hiphost::GuestDevice {
 public:
  void describe(hipDeviceProp_t& properties) const noexcept override {
    std::strcpy(properties.gcnArchName, "guest");
    properties.multiProcessorCount = 3;
    properties.warpSize = 64;
  }
  void* allocate(std::size_t size) noexcept override {
    if (size > kMost) return nullptr;
    void* memory = std::aligned_alloc(256, (size + 255) / 256 * 256);
    live[memory] = size;
    return memory;
  }
  void release(void* memory, std::size_t size) noexcept override {
    CHECK(live[memory] == size);
    live.erase(memory);
    std::free(memory);
  }

  static constexpr std::size_t kMost = 1 << 20;
  std::map<void*, std::size_t> live;
};

Guest guest;
[[maybe_unused]] const bool is_set = (hiphost::set_guest_device(guest), true);

void note_launch(std::size_t* shared_bytes) { *shared_bytes = hiphost_dynamic_shared_bytes(); }

TEST_CASE("the properties are the guest's where it has its own") {
  hipDeviceProp_t properties{};
  REQUIRE(hipGetDeviceProperties(&properties, 0) == hipSuccess);
  CHECK(std::strcmp(properties.gcnArchName, "guest") == 0);
  CHECK(properties.multiProcessorCount == 3);
  int warp_size = 0;
  REQUIRE(hipDeviceGetAttribute(&warp_size, hipDeviceAttributeWarpSize, 0) == hipSuccess);
  CHECK(warp_size == 64);
}

TEST_CASE("device and pinned memory are the guest's") {
  void* device = nullptr;
  void* pinned = nullptr;
  REQUIRE(hipMalloc(&device, 1000) == hipSuccess);
  REQUIRE(hipHostMalloc(&pinned, 2000, hipHostMallocDefault) == hipSuccess);
  CHECK(guest.live == std::map<void*, std::size_t>{{device, 1000}, {pinned, 2000}});
  CHECK(hipMemset(device, 1, 1000) == hipSuccess);
  CHECK(hipFree(device) == hipSuccess);
  CHECK(hipHostFree(pinned) == hipSuccess);
  CHECK(guest.live.empty());
  CHECK(hipMalloc(&device, Guest::kMost + 1) == hipErrorOutOfMemory);
}

TEST_CASE("a launch says how much shared memory it asked for") {
  std::size_t shared_bytes = 0;
  REQUIRE(hiphost::launch(note_launch, dim3(1), dim3(1), 4096, nullptr, &shared_bytes) == hipSuccess);
  REQUIRE(hipDeviceSynchronize() == hipSuccess);
  CHECK(shared_bytes == 4096);
}

}  // namespace
