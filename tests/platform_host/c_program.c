// The runtime's interface used from C.
#include <hip/hip_runtime_api.h>

int run_c_program(void);

int run_c_program(void) {
  void* memory = NULL;
  unsigned char first = 0;
  hipStream_t stream = NULL;
  struct hipMemcpy3DParms box = {0};
  dim3 grid = {1, 1, 1};
  box.extent = make_hipExtent(16, grid.x, 1);
  if (hipMalloc(&memory, 16) != hipSuccess) return 1;
  if (hipStreamCreate(&stream) != hipSuccess) return 2;
  if (hipMemsetAsync(memory, 7, box.extent.width, stream) != hipSuccess) return 3;
  if (hipMemcpyAsync(&first, memory, 1, hipMemcpyDeviceToHost, stream) != hipSuccess) return 4;
  if (hipStreamDestroy(stream) != hipSuccess) return 5;
  if (hipFree(memory) != hipSuccess) return 6;
  return first == 7 ? 0 : 7;
}
