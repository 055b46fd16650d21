/** @file What a program does where HIP finds no device. For C too. */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Exit status of a program that needed a device and found none; of a test, that it was skipped. */
enum { kNoDeviceStatus = 2 };

/** Whether HIP finds a device. Where it finds none, stderr gets one line: HIP's own error, and what to do about it. */
bool require_device(const char* program);

#ifdef __cplusplus
}
#endif
