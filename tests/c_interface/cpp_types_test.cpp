// What a C program can't do: throw out of a callback, and compare with the C++ types.
#include <new>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "attention.h"
#include "fmhax/executor.hpp"
#include "fmhax/fmhax.h"
#include "fmhax/problem.hpp"

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

TEST_CASE("every field of a problem arrives") {
  fmhax_problem c;
  REQUIRE(fmhax_problem_init(&c, sizeof c) == FMHAX_OK);
  fmhax::Problem cpp;
  const auto check = [&] {
    char text[400];
    REQUIRE(fmhax_problem_to_string(&c, text, sizeof text, nullptr) == FMHAX_OK);
    CHECK(text == to_string(cpp));
  };
  check();
  c.dtype = FMHAX_DATA_TYPE_FP16;
  cpp.dtype = fmhax::DataType::fp16;
  std::int64_t value = 0;
  c.is_group_mode = 1;
  cpp.is_group_mode = true;
  c.batch = cpp.batch = ++value;
  c.nhead_q = cpp.nhead_q = ++value;
  c.nhead_k = cpp.nhead_k = ++value;
  c.hdim_q = cpp.hdim_q = ++value;
  c.hdim_v = cpp.hdim_v = ++value;
  c.max_seqlen_q = cpp.max_seqlen_q = ++value;
  c.max_seqlen_k = cpp.max_seqlen_k = ++value;
  c.total_q = cpp.total_q = ++value;
  c.total_k = cpp.total_k = ++value;
  check();
  c.mask = {FMHAX_MASK_ALIGNMENT_BOTTOM_RIGHT, 3, 4};
  cpp.mask = {fmhax::MaskAlignment::bottom_right, 3, 4};
  check();
  c.logical_lengths = FMHAX_LOGICAL_LENGTHS_CUMULATIVE;
  cpp.logical_lengths = fmhax::LogicalLengths::cumulative;
  c.bias = FMHAX_BIAS_ELEMENTWISE;
  cpp.bias = fmhax::BiasKind::elementwise;
  check();
  const auto check_flag = [&](std::int32_t fmhax_problem::*c_flag, bool fmhax::Problem::*cpp_flag) {
    c.*c_flag = 2;
    cpp.*cpp_flag = true;
    check();
    c.*c_flag = 0;
    cpp.*cpp_flag = false;
  };
  check_flag(&fmhax_problem::is_deterministic, &fmhax::Problem::is_deterministic);
  check_flag(&fmhax_problem::has_dbias, &fmhax::Problem::has_dbias);
  check_flag(&fmhax_problem::has_dropout, &fmhax::Problem::has_dropout);
  check_flag(&fmhax_problem::stores_random_values, &fmhax::Problem::stores_random_values);
  check_flag(&fmhax_problem::has_sink, &fmhax::Problem::has_sink);
  check_flag(&fmhax_problem::has_softcap, &fmhax::Problem::has_softcap);
  check_flag(&fmhax_problem::has_dlse, &fmhax::Problem::has_dlse);
  c.bias = FMHAX_BIAS_ALIBI;
  cpp.bias = fmhax::BiasKind::alibi;
  c.alibi_form = FMHAX_ALIBI_DISTANCE_BOTTOM_RIGHT;
  cpp.alibi_form = fmhax::AlibiForm::distance_bottom_right;
  check();
}

TEST_CASE("every argument of a feature arrives: a plain problem refuses each by its name") {
  attention a;
  attention_create(&a);
  constexpr std::int32_t kStarts[STARTS] = {0, 1, 2, 3};
  attention_set_starts(&a, kStarts);
  fmhax_executor* executor = nullptr;
  REQUIRE(fmhax_executor_create(&a.problem, nullptr, &executor) == FMHAX_OK);
  float value = 0;
  const std::uint64_t number = 0;
  const auto refuses = [&](const char* field, auto set) {
    fmhax_call_arguments changed = a.arguments;
    set(changed);
    CAPTURE(field);
    CHECK(fmhax_executor_enqueue(executor, &changed, nullptr) == FMHAX_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(fmhax_last_error_message()).starts_with(std::string(field) + " is set"));
  };
  refuses("bias", [&](fmhax_call_arguments& c) { c.bias.data = &value; });
  refuses("dbias", [&](fmhax_call_arguments& c) { c.dbias.data = &value; });
  refuses("random_values", [&](fmhax_call_arguments& c) { c.random_values.data = &value; });
  refuses("dlse", [&](fmhax_call_arguments& c) { c.dlse.data = &value; });
  refuses("alibi_slopes", [&](fmhax_call_arguments& c) { c.alibi_slopes = &value; });
  refuses("alibi_stride_batch", [](fmhax_call_arguments& c) { c.alibi_stride_batch = 1; });
  refuses("sink", [&](fmhax_call_arguments& c) { c.sink = &value; });
  refuses("dsink", [&](fmhax_call_arguments& c) { c.dsink = &value; });
  refuses("softcap", [](fmhax_call_arguments& c) { c.softcap = 1; });
  refuses("dropout", [](fmhax_call_arguments& c) { c.dropout_probability = 0.5F; });
  refuses("dropout", [](fmhax_call_arguments& c) { c.dropout_seed = 1; });
  refuses("dropout", [](fmhax_call_arguments& c) { c.dropout_offset = 1; });
  refuses("dropout", [&](fmhax_call_arguments& c) { c.dropout_seed_pointer = &number; });
  refuses("dropout", [&](fmhax_call_arguments& c) { c.dropout_offset_pointer = &number; });
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}

TEST_CASE("an executor's spec and sizes are those of the C++ executor, whatever kernel is chosen") {
  fmhax_problem c;
  REQUIRE(fmhax_problem_init(&c, sizeof c) == FMHAX_OK);
  c.batch = 3;
  c.nhead_q = c.nhead_k = 2;
  c.hdim_q = c.hdim_v = 64;
  c.max_seqlen_q = 300;
  fmhax::Problem cpp;
  cpp.batch = 3;
  cpp.nhead_q = cpp.nhead_k = 2;
  cpp.hdim_q = cpp.hdim_v = 64;
  cpp.max_seqlen_q = 300;
  for (const std::int64_t seqlen_k : {64, 1000}) {
    for (const bool is_deterministic : {false, true}) {
      c.max_seqlen_k = cpp.max_seqlen_k = seqlen_k;
      c.is_deterministic = cpp.is_deterministic = is_deterministic;
      const fmhax::Executor expected(cpp);
      fmhax_executor* executor = nullptr;
      REQUIRE(fmhax_executor_create(&c, nullptr, &executor) == FMHAX_OK);
      fmhax_workspace_spec spec;
      spec.struct_size = sizeof spec;
      REQUIRE(fmhax_executor_workspace_spec(executor, &spec) == FMHAX_OK);
      const fmhax::WorkspaceSpec& cpp_spec = expected.workspace_spec();
      CHECK(spec.kN0 == cpp_spec.kN0);
      CHECK(spec.workers == cpp_spec.workers);
      CHECK(spec.acc_element_size == cpp_spec.acc_element_size);
      CHECK((spec.is_group_mode != 0) == cpp_spec.is_group_mode);
      CHECK((spec.is_deterministic != 0) == cpp_spec.is_deterministic);
      CHECK((spec.is_persistent != 0) == cpp_spec.is_persistent);
      CHECK((spec.writes_dq_directly != 0) == cpp_spec.writes_dq_directly);
      CHECK((spec.needs_zero_dq_acc != 0) == cpp_spec.needs_zero_dq_acc);
      CHECK((spec.has_tile_list != 0) == cpp_spec.has_tile_list);
      CHECK((spec.can_bound_splits != 0) == cpp_spec.can_bound_splits);
      CHECK(spec.max_splits == cpp_spec.max_splits);
      CHECK(spec.acc_alignment == cpp_spec.acc_alignment);
      std::int64_t from_executor = -1;
      std::int64_t from_spec = -1;
      CHECK(fmhax_executor_workspace_size(executor, &from_executor) == FMHAX_OK);
      CHECK(fmhax_workspace_size(&spec, &c, &from_spec) == FMHAX_OK);
      CHECK(from_executor == expected.workspace_size());
      CHECK(from_spec == from_executor);
      fmhax_executor_destroy(executor);
    }
  }
}

TEST_CASE("an executor's ceiling for the workspace is the C++ executor's") {
  fmhax_problem c;
  REQUIRE(fmhax_problem_init(&c, sizeof c) == FMHAX_OK);
  fmhax::Problem cpp;
  c.is_group_mode = c.is_deterministic = cpp.is_group_mode = cpp.is_deterministic = 1;
  c.batch = cpp.batch = 1;
  c.nhead_q = c.nhead_k = cpp.nhead_q = cpp.nhead_k = 1;
  c.hdim_q = c.hdim_v = cpp.hdim_q = cpp.hdim_v = 64;
  c.max_seqlen_q = c.total_q = cpp.max_seqlen_q = cpp.total_q = 100;
  c.max_seqlen_k = c.total_k = cpp.max_seqlen_k = cpp.total_k = 2000;
  fmhax::ExecutorOptions cpp_options;
  cpp_options.max_workspace_bytes = fmhax::Executor(cpp).workspace_size() / 2;
  fmhax_executor_options options;
  REQUIRE(fmhax_executor_options_init(&options, sizeof options) == FMHAX_OK);
  CHECK(options.max_workspace_bytes == 0);
  options.max_workspace_bytes = cpp_options.max_workspace_bytes;
  fmhax_executor* executor = nullptr;
  REQUIRE(fmhax_executor_create(&c, &options, &executor) == FMHAX_OK);
  fmhax_workspace_spec spec;
  spec.struct_size = sizeof spec;
  REQUIRE(fmhax_executor_workspace_spec(executor, &spec) == FMHAX_OK);
  CHECK(spec.max_splits > 0);
  CHECK(spec.max_splits == fmhax::Executor(cpp, cpp_options).workspace_spec().max_splits);
  fmhax_executor_destroy(executor);
  options.max_workspace_bytes = 1;
  CHECK(fmhax_executor_create(&c, &options, &executor) == FMHAX_ERROR_UNSUPPORTED);
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
