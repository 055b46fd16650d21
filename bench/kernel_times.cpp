// Device time of the portable kernels around dq_dk_dv, each alone, beside a plain copy of as many bytes.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "auxiliary.hpp"
#include "device_check/device_check.h"
#include "fmhax/error.hpp"
#include "fmhax/tensor.hpp"
#include "fmhax/workspace.hpp"

namespace {

using namespace fmhax;

void check(hipError_t result, const char* call) {
  if (result == hipSuccess) return;
  std::fprintf(stderr, "kernel_times: %s failed: %s\n", call, hipGetErrorName(result));
  std::exit(2);
}

/// Device memory that lives as long as the program's case.
class Memory {
 public:
  void* allocate(std::int64_t bytes) {
    void* data = nullptr;
    check(hipMalloc(&data, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16))), "hipMalloc");
    blocks_.emplace_back(data, [](void* block) { (void)hipFree(block); });
    check(hipMemset(data, 0, static_cast<std::size_t>(bytes)), "hipMemset");
    return data;
  }
  TensorRef tensor(std::int64_t rows, std::int64_t heads, std::int64_t hdim, std::int64_t element,
                   std::int64_t seqlen) {
    return {allocate(rows * heads * hdim * element), seqlen * heads * hdim, heads * hdim, hdim};
  }

 private:
  std::vector<std::shared_ptr<void>> blocks_;
};

/// Microseconds of one launch: the median over rounds of many in a row.
template <typename Enqueue>
double microseconds(hipStream_t stream, const Enqueue& enqueue) {
  constexpr int kRounds = 9;
  constexpr int kLaunches = 20;
  std::array<double, kRounds> times{};
  hipEvent_t start = nullptr;
  hipEvent_t stop = nullptr;
  check(hipEventCreate(&start), "hipEventCreate");
  check(hipEventCreate(&stop), "hipEventCreate");
  enqueue();
  for (double& time : times) {
    check(hipEventRecord(start, stream), "hipEventRecord");
    for (int i = 0; i < kLaunches; ++i) enqueue();
    check(hipEventRecord(stop, stream), "hipEventRecord");
    check(hipStreamSynchronize(stream), "hipStreamSynchronize");
    float milliseconds = 0.0F;
    check(hipEventElapsedTime(&milliseconds, start, stop), "hipEventElapsedTime");
    time = 1e3 * static_cast<double>(milliseconds) / kLaunches;
  }
  check(hipEventDestroy(start), "hipEventDestroy");
  check(hipEventDestroy(stop), "hipEventDestroy");
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

double launch_time(hipStream_t stream, const KernelLaunch& launch) {
  KernelLaunch copy = launch;
  std::array<void*, KernelLaunch::kMaxArguments> arguments{};
  for (std::uint32_t i = 0; i < copy.argument_count; ++i) arguments[i] = copy.arguments + copy.argument_offset[i];
  if (copy.shared_bytes > 0) {
    check(hipFuncSetAttribute(copy.function, hipFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(copy.shared_bytes)),
          "hipFuncSetAttribute");
  }
  return microseconds(stream, [&] {
    check(hipLaunchKernel(copy.function, dim3(copy.grid[0], 1, 1), dim3(copy.block[0], 1, 1), arguments.data(),
                          copy.shared_bytes, stream),
          "hipLaunchKernel");
  });
}

/// Per byte moved, a read and a write count as two.
double copy_time(hipStream_t stream, Memory& memory, std::int64_t bytes) {
  void* from = memory.allocate(bytes / 2);
  void* to = memory.allocate(bytes / 2);
  return microseconds(stream, [&] {
    check(hipMemcpyAsync(to, from, static_cast<std::size_t>(bytes / 2), hipMemcpyDeviceToDevice, stream),
          "hipMemcpyAsync");
  });
}

struct Shape {
  const char* name;
  std::vector<std::int32_t> seqlens;  ///< one: batch mode, `batch` of them
  std::int64_t batch, nhead, hdim, capacity_factor;
};

void report(const Shape& shape, const char* kernel, double time, std::int64_t bytes, double copy) {
  std::printf("%-28s %4lld %-17s %9.2f us", shape.name, static_cast<long long>(shape.hdim), kernel, time);
  if (bytes > 0) {
    std::printf(" %8.0f GB/s, a copy %9.2f us", static_cast<double>(bytes) / time / 1e3, copy);
  }
  std::printf("\n");
}

void measure(const Shape& shape, const DeviceTraits& traits, hipStream_t stream) {
  Memory memory;
  Problem p;
  p.dtype = DataType::bf16;
  p.nhead_q = p.nhead_k = shape.nhead;
  p.hdim_q = p.hdim_v = shape.hdim;
  p.max_seqlen_q = p.max_seqlen_k = *std::max_element(shape.seqlens.begin(), shape.seqlens.end());
  p.batch = shape.batch;
  KernelParams params;
  std::int64_t tokens = shape.batch * p.max_seqlen_q;
  if (shape.seqlens.size() > 1) {
    p.is_group_mode = true;
    std::vector<std::int32_t> starts(shape.seqlens.size() + 1);
    std::partial_sum(shape.seqlens.begin(), shape.seqlens.end(), starts.begin() + 1);
    tokens = starts.back();
    p.total_q = p.total_k = tokens * shape.capacity_factor;
    auto* device = static_cast<std::int32_t*>(memory.allocate(static_cast<std::int64_t>(starts.size()) * 4));
    check(hipMemcpy(device, starts.data(), starts.size() * 4, hipMemcpyHostToDevice), "hipMemcpy");
    params.lengths.seqstart_q = params.lengths.seqstart_k = device;
  }
  params.problem = p;
  const std::int64_t rows = rows_q(p);
  const std::int64_t seqlen = p.is_group_mode ? rows : p.max_seqlen_q;
  for (TensorRef* tensor : {&params.q, &params.k, &params.v, &params.o, &params.dout, &params.dq}) {
    *tensor = memory.tensor(rows, p.nhead_q, p.hdim_q, 2, seqlen);
  }
  for (TensorRef* tensor : {&params.lse, &params.d}) {
    *tensor = memory.tensor(rows, p.nhead_q, 1, 4, seqlen);
    tensor->stride_nhead = seqlen;
    tensor->stride_seqlen = 1;
  }
  WorkspaceSpec spec;
  spec.kN0 = 128;
  spec.is_group_mode = p.is_group_mode;
  spec.needs_zero_dq_acc = true;
  spec.has_tile_list = p.is_group_mode;
  const std::int64_t head = workspace_host_size(spec, p.batch);
  params.dq_acc_bytes = workspace_size(spec, p) - head;
  params.metadata = memory.allocate(head);
  params.dq_acc = memory.allocate(params.dq_acc_bytes);
  auto* base = static_cast<std::byte*>(params.metadata);
  params.nsplits = reinterpret_cast<const std::int32_t*>(base);
  if (p.is_group_mode) {
    params.dq_acc_offsets = reinterpret_cast<const std::int64_t*>(base + dq_acc_offsets_position(spec, p.batch));
  }

  const std::int64_t elements = tokens * p.nhead_q * p.hdim_q;
  KernelLaunch launch;
  const auto report_launch = [&](const char* kernel, std::int64_t bytes) {
    report(shape, kernel, launch_time(stream, launch), bytes, copy_time(stream, memory, bytes));
  };
  portable::form_prepare(spec, traits, params, launch);
  report(shape, "pack", launch_time(stream, launch), 0, 0);
  portable::form_dot_do_o(traits, params, launch);
  report_launch("dot_do_o", elements * 4);
  portable::form_prepare_and_dot(spec, traits, params, launch);
  report_launch("pack + dot", elements * 4);
  params.zero_dq_acc = true;
  portable::form_prepare(spec, traits, params, launch);
  report_launch("pack + zero", elements * 4);
  portable::form_prepare_and_dot(spec, traits, params, launch);
  report_launch("pack + zero + dot", elements * 8);
  portable::form_convert_dq(traits, params, launch);
  report_launch("convert_dq", elements * 6);
  portable::form_forward(traits, params, launch);
  const double time = launch_time(stream, launch);
  double flops = 0;
  for (const std::int32_t length : shape.seqlens) flops += 4.0 * length * length;
  flops *= static_cast<double>(p.nhead_q * p.hdim_q * (p.is_group_mode ? 1 : p.batch));
  std::printf("%-28s %4lld %-17s %9.2f us %8.0f TFLOP/s\n", shape.name, static_cast<long long>(shape.hdim), "forward",
              time, flops / time / 1e6);
}

/// `count` lengths up to `longest`, few long and many short.
std::vector<std::int32_t> skewed(std::int64_t count, std::int32_t longest) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    const double part = std::pow(static_cast<double>(i + 1) / static_cast<double>(count), 4.0);
    lengths.push_back(std::max<std::int32_t>(1, static_cast<std::int32_t>(part * longest)));
  }
  return lengths;
}

}  // namespace

int main() {
  if (!require_device("kernel_times")) return kNoDeviceStatus;
  hipDeviceProp_t properties{};
  check(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
  DeviceTraits traits;
  traits.multiprocessors = properties.multiProcessorCount;
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  for (const std::int64_t hdim : {64, 128, 256}) {
    measure({"dense 8 x 2048, 16 heads", {2048}, 8, 16, hdim, 1}, traits, stream);
    measure({"packed 4 of 16, 1 head", {16, 16, 16, 16}, 4, 1, hdim, 1}, traits, stream);
    measure({"packed 8, skewed", skewed(8, 800), 8, 16, hdim, 1}, traits, stream);
    measure({"the same, capacity x 4", skewed(8, 800), 8, 16, hdim, 4}, traits, stream);
    measure({"packed 1024, skewed", skewed(1024, 300), 1024, 16, hdim, 1}, traits, stream);
    measure({"packed 8192, skewed", skewed(8192, 100), 8192, 4, hdim, 1}, traits, stream);
  }
  return hipStreamDestroy(stream) == hipSuccess ? 0 : 1;
}
