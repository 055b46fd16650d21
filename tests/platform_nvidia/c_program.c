#include "c_program.h"

#include <hip/hip_runtime_api.h>
#include <string.h>

int run_c_program(void) {
  enum { kBytes = 64 };
  char sent[kBytes], received[kBytes];
  void* device = NULL;
  hipStream_t stream = NULL;
  memset(sent, 'x', sizeof(sent));
  if (hipMalloc(&device, kBytes) != hipSuccess) return 1;
  if (hipStreamCreateWithFlags(&stream, hipStreamNonBlocking) != hipSuccess) return 2;
  if (hipMemcpyAsync(device, sent, kBytes, hipMemcpyHostToDevice, stream) != hipSuccess) return 3;
  if (hipMemsetAsync(device, 'y', kBytes / 2, stream) != hipSuccess) return 4;
  if (hipStreamSynchronize(stream) != hipSuccess) return 5;
  if (hipMemcpy(received, device, kBytes, hipMemcpyDeviceToHost) != hipSuccess) return 6;
  if (received[0] != 'y' || received[kBytes / 2 - 1] != 'y' || received[kBytes / 2] != 'x') return 7;
  if (hipStreamDestroy(stream) != hipSuccess) return 8;
  if (hipFree(device) != hipSuccess) return 9;
  return strcmp(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory") == 0 ? 0 : 10;
}
