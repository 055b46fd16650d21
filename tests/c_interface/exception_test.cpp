// What a C program can't do: throw out of a callback, and compare the defaults with those of the C++ types.
#include <new>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "attention.h"
#include "fmhax/executor.hpp"
#include "fmhax/fmhax.h"

namespace {

using ThrowingAllocator = void* (*)(void*, std::size_t, std::int32_t);

/// What a call gives whose workspace_alloc throws.
fmhax_error_code enqueue_with(ThrowingAllocator workspace_alloc) {
  attention a;
  attention_create(&a);
  constexpr std::int32_t kStarts[STARTS] = {0, 1, 2, 3};
  attention_set_starts(&a, kStarts);
  fmhax_executor_options options;
  REQUIRE(fmhax_executor_options_init(&options, sizeof options) == FMHAX_OK);
  options.workspace_alloc = workspace_alloc;
  fmhax_executor* executor = nullptr;
  REQUIRE(fmhax_executor_create(&a.problem, &options, &executor) == FMHAX_OK);
  const fmhax_error_code code = fmhax_executor_enqueue(executor, &a.arguments, nullptr);
  fmhax_graph* graph = nullptr;
  CHECK(fmhax_graph_create(executor, &a.arguments, &graph) == code);
  CHECK(graph == nullptr);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
  return code;
}

}  // namespace

TEST_CASE("exceptions of a callback become codes and messages") {
  CHECK(enqueue_with([](void*, std::size_t, std::int32_t) -> void* { throw std::bad_alloc(); }) ==
        FMHAX_ERROR_OUT_OF_MEMORY);
  CHECK(std::string(fmhax_last_error_message()) == "out of memory");
  CHECK(enqueue_with([](void*, std::size_t, std::int32_t) -> void* { throw std::runtime_error("mine"); }) ==
        FMHAX_ERROR_INTERNAL);
  CHECK(std::string(fmhax_last_error_message()) == "mine");
  CHECK(enqueue_with([](void*, std::size_t, std::int32_t) -> void* { throw 5; }) == FMHAX_ERROR_INTERNAL);
  CHECK(enqueue_with([](void*, std::size_t, std::int32_t) -> void* {
          throw fmhax::Error(fmhax::ErrorCode::hip, "a call of mine", 2);
        }) == FMHAX_ERROR_HIP);
  CHECK(fmhax_last_hip_error() == 2);
}

TEST_CASE("a release that throws ends where it began") {
  attention a;
  attention_create(&a);
  fmhax_executor_options options;
  REQUIRE(fmhax_executor_options_init(&options, sizeof options) == FMHAX_OK);
  bool was_called = false;
  options.user = &was_called;
  options.release_user = [](void* user) {
    *static_cast<bool*>(user) = true;
    throw std::runtime_error("nobody hears it");
  };
  fmhax_executor* executor = nullptr;
  REQUIRE(fmhax_executor_create(&a.problem, &options, &executor) == FMHAX_OK);
  fmhax_executor_destroy(executor);
  CHECK(was_called);
  attention_destroy(&a);
}

TEST_CASE("defaults are those of the C++ types") {
  fmhax_problem problem;
  REQUIRE(fmhax_problem_init(&problem, sizeof problem) == FMHAX_OK);
  const fmhax::Problem cpp_problem;
  CHECK(problem.dtype == static_cast<std::int32_t>(cpp_problem.dtype));
  CHECK(problem.mask.alignment == static_cast<std::int32_t>(cpp_problem.mask.alignment));
  CHECK(problem.mask.window_left == cpp_problem.mask.window_left);
  CHECK(problem.mask.window_right == cpp_problem.mask.window_right);
  CHECK(problem.batch == 0);

  fmhax_call_arguments arguments;
  REQUIRE(fmhax_call_arguments_init(&arguments, sizeof arguments) == FMHAX_OK);
  CHECK(arguments.scale == fmhax::CallArguments{}.scale);
  CHECK(arguments.dv.stride_hdim == 1);
  CHECK(arguments.lengths == nullptr);
  CHECK(arguments.status == nullptr);

  fmhax_executor_options options;
  REQUIRE(fmhax_executor_options_init(&options, sizeof options) == FMHAX_OK);
  const fmhax::ExecutorOptions cpp_options;
  CHECK(options.keepalive == static_cast<std::int32_t>(cpp_options.keepalive));
  CHECK(options.metadata_path == static_cast<std::int32_t>(cpp_options.metadata_path));
}

TEST_CASE("tensors are those of the C++ functions") {
  float data = 0;
  const auto check = [](const fmhax_tensor& c, const fmhax::TensorView& view) {
    CHECK(c.data == view.data);
    CHECK(c.dtype == static_cast<std::int32_t>(view.dtype));
    CHECK(c.batch == view.batch);
    CHECK(c.seqlen == view.seqlen);
    CHECK(c.nhead == view.nhead);
    CHECK(c.hdim == view.hdim);
    CHECK(c.stride_batch == view.stride_batch);
    CHECK(c.stride_seqlen == view.stride_seqlen);
    CHECK(c.stride_nhead == view.stride_nhead);
    CHECK(c.stride_hdim == view.stride_hdim);
  };
  using fmhax::DataType;
  using fmhax::TensorView;
  check(fmhax_tensor_bshd(&data, FMHAX_DATA_TYPE_FP16, 2, 3, 5, 8),
        TensorView::bshd(&data, DataType::fp16, 2, 3, 5, 8));
  check(fmhax_tensor_bhsd(&data, FMHAX_DATA_TYPE_FP16, 2, 3, 5, 8),
        TensorView::bhsd(&data, DataType::fp16, 2, 3, 5, 8));
  check(fmhax_tensor_sbhd(&data, FMHAX_DATA_TYPE_BF16, 2, 3, 5, 8),
        TensorView::sbhd(&data, DataType::bf16, 2, 3, 5, 8));
  check(fmhax_tensor_thd(&data, FMHAX_DATA_TYPE_FP32, 7, 5, 8), TensorView::thd(&data, DataType::fp32, 7, 5, 8));
  check(fmhax_tensor_rows_bhs(&data, 2, 5, 3), TensorView::rows_bhs(&data, 2, 5, 3));
  check(fmhax_tensor_rows_ht(&data, 5, 7), TensorView::rows_ht(&data, 5, 7));
}
