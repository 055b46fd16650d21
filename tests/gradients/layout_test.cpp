/// @file Faults of layouts and sizes: strides of every kind, head dimensions, head ratios, many sequences.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"
#include "gradient_test.hpp"
#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

Case with_dout(Case c, Layout layout) {
  c.layouts.dout = layout;
  return c;
}

/// The message with which a call is refused; empty when it is not.
template <typename Change>
std::string refusal(const Case& c, const Change& change) {
  const PreparedCase prepared = prepare(c);
  DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
  change(device.arguments());
  try {
    device.run(RunMode::eager);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

/// Device memory that is far larger than what is touched of it.
class Arena {
 public:
  explicit Arena(std::size_t bytes) {
    if (hipMalloc(&data_, bytes) != hipSuccess) data_ = nullptr;
  }
  ~Arena() {
    if (data_ != nullptr) (void)hipFree(data_);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

void* row_address(const TensorView& view, std::int64_t b, std::int64_t s, std::int64_t h) {
  const std::int64_t index = b * view.stride_batch + s * view.stride_seqlen + h * view.stride_nhead;
  return static_cast<std::byte*>(view.data) + index * element_size(view.dtype);
}

/// Copies every row of one view to the same row of another, on the device.
void copy_rows(const TensorView& from, const TensorView& to) {
  const auto bytes = static_cast<std::size_t>(from.hdim * element_size(from.dtype));
  for (std::int64_t b = 0; b < from.batch; ++b) {
    for (std::int64_t s = 0; s < from.seqlen; ++s) {
      for (std::int64_t h = 0; h < from.nhead; ++h) {
        check_hip(hipMemcpy(row_address(to, b, s, h), row_address(from, b, s, h), bytes, hipMemcpyDeviceToDevice),
                  "hipMemcpy");
      }
    }
  }
}

}  // namespace

TEST_CASE("every tensor may have every layout") {
  for (const Order order : {Order::bshd, Order::sbhd, Order::bhsd}) {
    for (const std::int64_t extra_columns : {0, 8}) {
      for (const std::int64_t extra_heads : {0, 3}) {
        const Layout layout{order, extra_columns, extra_heads};
        Case c = test::batch_case(3, 70, 140, Mask::causal());
        c.layouts = {layout, layout, layout, layout, layout, layout, layout, layout, layout, layout};
        c.problem.dtype = DataType::bf16;
        for (const std::string& kernel : test::kernels_for(c.problem)) test::check_case(c, kernel);
        c = test::group_case({70, 3}, {140, 60}, Mask::causal());
        c.layouts = {layout, layout, layout, layout, layout, layout, layout, layout, layout, layout};
        for (const std::string& kernel : test::kernels_for(c.problem)) test::check_case(c, kernel);
      }
    }
  }
}

TEST_CASE("a transposed dout is right") {
  const Case batch = test::batch_case(3, 66, 130);
  const Case group = test::group_case({66, 1, 30}, {130, 20, 9});
  for (const Order order : {Order::sbhd, Order::bhsd}) {
    test::check_everywhere(with_dout(batch, {.order = order}));
    test::check_everywhere(with_dout(group, {.order = order}));
  }
}

TEST_CASE("an expanded dout, stride 0 in any dimension, is right") {
  const Case batch = test::batch_case(3, 66, 130, Mask::causal());
  const Case group = test::group_case({66, 1, 30}, {130, 20, 9}, Mask::causal());
  for (const unsigned bits : {1U, 2U, 4U, 7U}) {
    Layout layout;
    layout.expands_batch = (bits & 1U) != 0;
    layout.expands_seqlen = (bits & 2U) != 0;
    layout.expands_nhead = (bits & 4U) != 0;
    test::check_everywhere(with_dout(batch, layout));
    test::check_everywhere(with_dout(group, layout));
  }
}

TEST_CASE("a dout that is a slice of a wider tensor is right") {
  test::check_everywhere(with_dout(test::batch_case(2, 66, 130), {.extra_columns = 40}));
  test::check_everywhere(with_dout(test::batch_case(2, 66, 130), {.order = Order::bhsd, .extra_heads = 6}));
}

TEST_CASE("a dout whose last dimension is not contiguous is refused with a message") {
  const Case c = test::batch_case(2, 20, 30);
  CHECK(refusal(c, [](CallArguments&) {}).empty());
  CHECK(refusal(c, [](CallArguments& a) { a.dout.stride_hdim = 2; }).find("dout.stride_hdim is 2") == 0);
  // What PyTorch's sum().backward() hands over: one scalar for everything.
  const std::string scalar = refusal(c, [](CallArguments& a) {
    a.dout.stride_batch = a.dout.stride_seqlen = a.dout.stride_nhead = a.dout.stride_hdim = 0;
  });
  CHECK(scalar.find("dout.stride_hdim is 0") == 0);
}

TEST_CASE("an output with stride 0 is refused with a message") {
  const Case c = test::batch_case(2, 20, 30);
  CHECK(refusal(c, [](CallArguments& a) { a.dk.stride_seqlen = 0; }).find("dk.stride_seqlen is 0") == 0);
}

TEST_CASE("offsets beyond 2^31 elements are right, whichever stride carries them") {
  constexpr std::int64_t kHugeStride = (std::int64_t{1} << 30) + 4096;
  constexpr std::int64_t kTensorOffset = 1024;  // elements between the tensors' first rows
  const Arena arena(static_cast<std::size_t>(2 * kHugeStride + 8 * kTensorOffset + 4096) * 2);
  if (arena.data() == nullptr) {
    MESSAGE("not run: 4 GiB of device memory can't be had here");
    return;
  }
  Case c = test::batch_case(3, 3, 3);
  c.problem.dtype = DataType::bf16;
  c.problem.nhead_q = c.problem.nhead_k = 3;
  c.problem.is_deterministic = true;
  const PreparedCase prepared = prepare(c);
  for (std::int64_t TensorView::*huge :
       {&TensorView::stride_batch, &TensorView::stride_seqlen, &TensorView::stride_nhead}) {
    for (const std::string& kernel : test::kernels_for(c.problem)) {
      INFO(kernel);
      ExecutorOptions options;
      options.kernel = kernel;
      DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem, options));
      CallArguments& a = device.arguments();
      const std::array<TensorView*, 8> tensors{&a.q, &a.k, &a.v, &a.o, &a.dout, &a.dq, &a.dk, &a.dv};
      const CallArguments compact = a;
      const std::array<const TensorView*, 8> compact_tensors{&compact.q,    &compact.k,  &compact.v,  &compact.o,
                                                             &compact.dout, &compact.dq, &compact.dk, &compact.dv};
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        TensorView& view = *tensors[i];
        view.data = static_cast<std::byte*>(arena.data()) + static_cast<std::int64_t>(i) * kTensorOffset * 2;
        view.stride_nhead = view.hdim;
        view.stride_seqlen = 3 * view.hdim;
        view.stride_batch = 9 * view.hdim;
        view.*huge = kHugeStride;
        copy_rows(*compact_tensors[i], view);  // for the outputs that is NaN
      }
      check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");  // copies within the device don't wait
      const OwnedStream stream;
      Executor(c.problem, options).enqueue(a, stream.get());
      stream.synchronize();
      for (std::size_t i = 5; i < tensors.size(); ++i) copy_rows(*tensors[i], *compact_tensors[i]);
      const Comparison comparison = compare(c, device.download_gradients(), prepared.expected);
      CHECK_MESSAGE(comparison.passed(), comparison.failure());
    }
  }
}

TEST_CASE("more than 65535 sequences, heads and tiles are launched, not skipped") {
  constexpr std::int32_t kMany = 66000;
  const auto check = [](Case c) {
    c.problem.nhead_q = c.problem.nhead_k;
    c.problem.hdim_q = c.problem.hdim_v = 8;
    // The others differ from the first two in instructions only.
    std::vector<std::string> kernels = test::kernels_for(c.problem);
    kernels.resize(std::min<std::size_t>(kernels.size(), 2));
    for (const std::string& kernel : kernels) test::check_case(c, kernel);
  };
  check(test::batch_case(kMany, 1, 2));
  check(test::group_case(std::vector<std::int32_t>(kMany, 1), std::vector<std::int32_t>(kMany, 1)));
  Case heads = test::batch_case(1, 1, 2);
  heads.problem.nhead_k = kMany;
  check(heads);
}

TEST_CASE("every multiple of 8 is a head dimension, hdim_q and hdim_v alike or not") {
  for (std::int64_t hdim = 8; hdim <= 256; hdim += 8) {
    for (const std::int64_t hdim_v : {hdim, 264 - hdim}) {
      for (const auto& [dtype, is_deterministic] : {std::pair{DataType::fp32, true}, {DataType::bf16, false}}) {
        Case c = test::batch_case(1, 37, 131, Mask::causal_bottom_right());
        c.problem.hdim_q = hdim;
        c.problem.hdim_v = hdim_v;
        c.problem.dtype = dtype;
        c.problem.is_deterministic = is_deterministic;
        c.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hdim)));
        test::check_case(c);
      }
    }
  }
}

TEST_CASE("every ratio of query heads to key heads is right, powers of two or not") {
  for (const auto& [nhead_k, ratio] : {std::pair{1, 3}, {3, 1}, {2, 5}, {3, 7}, {1, 12}, {5, 2}, {1, 1}}) {
    Case batch = test::batch_case(2, 40, 140, Mask::causal());
    batch.problem.nhead_k = nhead_k;
    batch.problem.nhead_q = nhead_k * ratio;
    test::check_everywhere(batch);
    Case group = test::group_case({40, 9}, {140, 30});
    group.problem.nhead_k = nhead_k;
    group.problem.nhead_q = nhead_k * ratio;
    test::check_everywhere(group);
  }
}
