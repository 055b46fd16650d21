/// @file hipLaunchHostFunc, which HIP 5.2 declares but does not export; a stream callback does the same there, but
/// while the stream captures.
#include <hip/hip_runtime.h>

#include <memory>
#include <new>

extern "C" hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
  struct Call {
    hipHostFn_t function;
    void* user_data;
  };
  auto* call = new (std::nothrow) Call{function, user_data};
  if (call == nullptr) return hipErrorOutOfMemory;
  const auto run = [](hipStream_t, hipError_t, void* argument) {
    const std::unique_ptr<Call> owned(static_cast<Call*>(argument));
    owned->function(owned->user_data);
  };
  const hipError_t error = hipStreamAddCallback(stream, run, call, 0);
  if (error != hipSuccess) delete call;
  return error;
}
