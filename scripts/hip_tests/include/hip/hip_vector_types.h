// The short vectors that hip-tests' headers name.
#pragma once

#define HIP_TESTS_VECTORS(name, scalar)        \
  struct name##1 {                             \
    scalar x;                                  \
  };                                           \
  struct alignas(2 * sizeof(scalar)) name##2 { \
    scalar x, y;                               \
  };                                           \
  struct name##3 {                             \
    scalar x, y, z;                            \
  };                                           \
  struct alignas(4 * sizeof(scalar)) name##4 { \
    scalar x, y, z, w;                         \
  };

HIP_TESTS_VECTORS(char, signed char)
HIP_TESTS_VECTORS(uchar, unsigned char)
HIP_TESTS_VECTORS(short, short)
HIP_TESTS_VECTORS(ushort, unsigned short)
HIP_TESTS_VECTORS(int, int)
HIP_TESTS_VECTORS(uint, unsigned)
HIP_TESTS_VECTORS(float, float)

#undef HIP_TESTS_VECTORS
