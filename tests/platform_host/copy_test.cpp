#include <cstring>
#include <numeric>

#include "support.hpp"

using test::Gate;
using test::Where;

TEST_CASE("a copy in a direction that its pointers don't have is refused") {
  const test::Buffer<char> device(64), pinned(64, Where::kPinned), managed(64, Where::kManaged);
  char pageable[64] = {};
  CHECK_IS(hipMemcpy(pageable, device, 64, hipMemcpyHostToDevice), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(device, pageable, 64, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(device, pageable, 64, hipMemcpyDeviceToDevice), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(device, pageable, 64, hipMemcpyHostToHost), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(pinned, device, 64, hipMemcpyHostToHost), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(pageable, pageable, 32, static_cast<hipMemcpyKind>(77)), hipErrorInvalidMemcpyDirection);
  CHECK_OK(hipMemcpy(device, pageable, 64, hipMemcpyHostToDevice));
  CHECK_OK(hipMemcpy(pageable, device, 64, hipMemcpyDeviceToHost));
  CHECK_OK(hipMemcpy(device, pinned, 64, hipMemcpyHostToDevice));
  CHECK_OK(hipMemcpy(managed, device, 64, hipMemcpyDeviceToHost));
  CHECK_OK(hipMemcpy(managed, device, 64, hipMemcpyDeviceToDevice));
}

TEST_CASE("a copy or set past the end of an allocation is refused") {
  const test::Buffer<char> device(64), pinned(64, Where::kPinned);
  char pageable[128] = {};
  CHECK_IS(hipMemcpy(device, pageable, 65, hipMemcpyHostToDevice), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(device.get() + 60, pageable, 5, hipMemcpyHostToDevice), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(pageable, pinned, 65, hipMemcpyDefault), hipErrorInvalidValue);
  CHECK_IS(hipMemset(device, 0, 65), hipErrorInvalidValue);
  CHECK_IS(hipMemsetD32(device, 0, 17), hipErrorInvalidValue);
  CHECK_IS(hipMemset(pageable, 0, 4), hipErrorInvalidValue);
  CHECK_IS(hipMemset(nullptr, 0, 4), hipErrorInvalidValue);
  CHECK_IS(hipMemcpy(nullptr, pageable, 4, hipMemcpyDefault), hipErrorInvalidValue);
  CHECK_IS(hipMemsetD32(device.get() + 1, 0, 1), hipErrorInvalidValue);
  CHECK_OK(hipMemset(device, 0, 64));
}

TEST_CASE("copying or setting nothing is accepted") {
  const test::Buffer<char> device(64);
  CHECK_OK(hipMemset(device, 0, 0));
  CHECK_OK(hipMemsetAsync(nullptr, 0, 0, nullptr));
  CHECK_OK(hipMemcpy(nullptr, nullptr, 0, hipMemcpyDefault));
}

TEST_CASE("the default direction is inferred from the pointers") {
  const test::Buffer<int> a(256), b(256);
  std::vector<int> in(256), out(256);
  std::iota(in.begin(), in.end(), 5);
  REQUIRE_OK(hipMemcpy(a, in.data(), 1024, hipMemcpyDefault));
  REQUIRE_OK(hipMemcpy(b, a, 1024, hipMemcpyDefault));
  REQUIRE_OK(hipMemcpy(out.data(), b, 1024, hipMemcpyDefault));
  CHECK(in == out);
}

TEST_CASE("pageable sources may be reused once the call returns") {
  const test::Stream stream;
  const test::Buffer<int> device(1024);
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  std::vector<int> source(1024, 7);
  REQUIRE_OK(hipMemcpyAsync(device, source.data(), 4096, hipMemcpyHostToDevice, stream));
  std::fill(source.begin(), source.end(), 8);
  gate.open();
  std::vector<int> result(1024);
  REQUIRE_OK(hipMemcpyAsync(result.data(), device, 4096, hipMemcpyDeviceToHost, stream));
  CHECK(result == std::vector<int>(1024, 7));
}

TEST_CASE("pinned copies don't block the host, and read when the stream gets there") {
  const test::Stream stream;
  const test::Buffer<int> device(16), source(16, Where::kPinned), result(16, Where::kPinned);
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  source.get()[0] = 1;
  REQUIRE_OK(hipMemcpyAsync(device, source, 64, hipMemcpyHostToDevice, stream));
  REQUIRE_OK(hipMemcpyAsync(result, device, 64, hipMemcpyDeviceToHost, stream));
  source.get()[0] = 2;
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(result.get()[0], 2);
}

TEST_CASE("sets write elements of one, two and four bytes") {
  const test::Buffer<unsigned char> device(64);
  unsigned char host[64];
  REQUIRE_OK(hipMemset(device, 0x11, 64));
  REQUIRE_OK(hipMemsetD8(device, 0x22, 3));
  REQUIRE_OK(hipMemsetD16(device.get() + 4, 0xABCD, 2));
  REQUIRE_OK(hipMemsetD32(device.get() + 8, 0x01020304, 2));
  REQUIRE_OK(hipMemsetD32(device.get() + 16, -1, 2));
  REQUIRE_OK(hipMemcpy(host, device, 64, hipMemcpyDeviceToHost));
  const unsigned char expected[] = {0x22, 0x22, 0x22, 0x11, 0xCD, 0xAB, 0xCD, 0xAB, 4,    3,    2,    1,   4,
                                    3,    2,    1,    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x11};
  CHECK_EQ(std::memcmp(host, expected, sizeof(expected)), 0);
}

TEST_CASE("planes and boxes are copied and set row by row") {
  unsigned char* device = nullptr;
  std::size_t pitch = 0;
  REQUIRE_OK(hipMallocPitch(&device, &pitch, 10, 6));
  CHECK_GE(pitch, 10);
  REQUIRE_OK(hipMemset2D(device, pitch, 0, pitch, 6));
  REQUIRE_OK(hipMemset2D(device, pitch, 9, 4, 3));
  unsigned char host[6 * 10];
  REQUIRE_OK(hipMemcpy2D(host, 10, device, pitch, 10, 6, hipMemcpyDeviceToHost));
  int nines = 0;
  for (const unsigned char byte : host) nines += byte == 9;
  CHECK_EQ(nines, 12);
  CHECK_EQ(host[2 * 10 + 3], 9);
  CHECK_EQ(host[3 * 10], 0);
  CHECK_IS(hipMemcpy2D(host, 5, device, pitch, 10, 6, hipMemcpyDeviceToHost), hipErrorInvalidPitchValue);
  CHECK_IS(hipMemcpy2D(host, 10, device, pitch, 10, 7, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  REQUIRE_OK(hipFree(device));

  hipPitchedPtr box;
  REQUIRE_OK(hipMalloc3D(&box, make_hipExtent(8, 4, 3)));
  REQUIRE_OK(hipMemset3D(box, 3, make_hipExtent(8, 4, 3)));
  unsigned char packed[8 * 4 * 3] = {};
  hipMemcpy3DParms params{};
  params.srcPtr = box;
  params.dstPtr = make_hipPitchedPtr(packed, 8, 8, 4);
  params.srcPos = make_hipPos(1, 1, 1);
  params.dstPos = make_hipPos(1, 1, 1);
  params.extent = make_hipExtent(7, 3, 2);
  params.kind = hipMemcpyDeviceToHost;
  REQUIRE_OK(hipMemcpy3D(&params));
  int threes = 0;
  for (const unsigned char byte : packed) threes += byte == 3;
  CHECK_EQ(threes, 7 * 3 * 2);
  params.srcArray = reinterpret_cast<hipArray_t>(packed);
  CHECK_IS(hipMemcpy3D(&params), hipErrorNotSupported);
  REQUIRE_OK(hipFree(box.ptr));
}
