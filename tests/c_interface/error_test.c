// What goes wrong, and texts.
#include <stdint.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "tests.h"

#define INVALID FMHAX_ERROR_INVALID_ARGUMENT

static void check_null_handles(const attention* a) {
  int64_t bytes = 0;
  size_t size = 0;
  const char* name = NULL;
  fmhax_hip_graph native = NULL;
  fmhax_executor* executor = (fmhax_executor*)(uintptr_t)1;
  fmhax_graph* graph = (fmhax_graph*)(uintptr_t)1;
  fmhax_call_status status = {.struct_size = sizeof status};
  fmhax_problem problem = {.struct_size = sizeof problem};
  fmhax_workspace_spec spec = {.struct_size = sizeof spec};
  fmhax_device_traits traits = {.struct_size = sizeof traits};
  fmhax_candidate candidate = {.struct_size = sizeof candidate};
  fmhax_graph_counters graph_counters = {.struct_size = sizeof graph_counters};
  fmhax_graph_cache_counters cache_counters = {.struct_size = sizeof cache_counters};
  const fmhax_call_arguments* c = &a->arguments;

  CHECK_ERROR(fmhax_executor_problem(NULL, &problem), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_workspace_spec(NULL, &spec), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_kernel_name(NULL, &name), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_device(NULL, &traits), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_candidate_count(NULL, &size), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_candidate(NULL, 0, &candidate), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_workspace_size(NULL, &bytes), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_workspace_size_of_starts(NULL, a->seqstart, a->seqstart, &bytes), INVALID, "executor");
  CHECK_ERROR(fmhax_executor_enqueue(NULL, c, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_prepare_workspace_async(NULL, c, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_prepare_workspace(NULL, c, &a->lengths, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_enqueue_kernels(NULL, c, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_enqueue_forward(NULL, c, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_describe(NULL, NULL, 0, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_dot(NULL, NULL, 0, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_executor_create(NULL, NULL, &executor), INVALID, "problem is null");
  CHECK(executor == NULL);
  CHECK_ERROR(fmhax_executor_create(&a->problem, NULL, NULL), INVALID, "executor is null");
  CHECK_ERROR(fmhax_graph_create(NULL, c, &graph), INVALID, "executor is null");
  CHECK(graph == NULL);
  CHECK_ERROR(fmhax_graph_update(NULL, c), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_launch(NULL, NULL), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_status(NULL, &status), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_get_counters(NULL, &graph_counters), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_native(NULL, &native), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_dot(NULL, NULL, 0, NULL), INVALID, "graph is null");
  CHECK_ERROR(fmhax_graph_cache_create(1, NULL), INVALID, "cache is null");
  CHECK_ERROR(fmhax_graph_cache_launch(NULL, NULL, c, NULL), INVALID, "is null");
  CHECK_ERROR(fmhax_graph_cache_get_counters(NULL, &cache_counters), INVALID, "cache is null");
  CHECK_ERROR(fmhax_graph_cache_size(NULL, &size), INVALID, "cache is null");
  CHECK_ERROR(fmhax_graph_cache_capacity(NULL, &size), INVALID, "cache is null");
  CHECK_ERROR(fmhax_graph_cache_clear(NULL), INVALID, "cache is null");
  CHECK_ERROR(fmhax_status_buffer_create(NULL), INVALID, "buffer is null");
  CHECK_ERROR(fmhax_status_buffer_read(NULL, &status), INVALID, "buffer is null");
  CHECK_ERROR(fmhax_registered_kernel_count(NULL), INVALID, "count is null");
  CHECK_ERROR(fmhax_registered_kernel_name(0, NULL), INVALID, "name is null");
  CHECK_ERROR(fmhax_call_arguments_init(NULL, sizeof *c), INVALID, "arguments is null");
  CHECK_ERROR(fmhax_executor_options_init(NULL, sizeof(fmhax_executor_options)), INVALID, "options is null");
  fmhax_executor_destroy(NULL);
  fmhax_graph_destroy(NULL);
  fmhax_graph_cache_destroy(NULL);
  fmhax_status_buffer_destroy(NULL);
}

static void check_null_pointers(const attention* a, const fmhax_executor* executor) {
  fmhax_graph* graph = (fmhax_graph*)(uintptr_t)1;
  CHECK_ERROR(fmhax_executor_enqueue(executor, NULL, NULL), INVALID, "arguments is null");
  CHECK_ERROR(fmhax_executor_workspace_size(executor, NULL), INVALID, "bytes is null");
  CHECK_ERROR(fmhax_executor_workspace_spec(executor, NULL), INVALID, "spec is null");
  CHECK_ERROR(fmhax_executor_problem(executor, NULL), INVALID, "problem is null");
  CHECK_ERROR(fmhax_executor_device(executor, NULL), INVALID, "traits is null");
  CHECK_ERROR(fmhax_executor_candidate(executor, 0, NULL), INVALID, "candidate is null");
  CHECK_ERROR(fmhax_executor_prepare_workspace(executor, &a->arguments, NULL, NULL), INVALID, "host_lengths is null");
  CHECK_ERROR(fmhax_executor_describe(executor, NULL, 10, NULL), INVALID, "text is null");
  CHECK_ERROR(fmhax_graph_create(executor, NULL, &graph), INVALID, "arguments is null");
  CHECK(graph == NULL);
}

static void check_bad_problems(const attention* a) {
  fmhax_executor* executor = (fmhax_executor*)(uintptr_t)1;
  fmhax_problem problem = a->problem;
  problem.hdim_q = 12;
  CHECK_ERROR(fmhax_problem_validate(&problem), INVALID, "hdim_q is 12");
  CHECK_ERROR(fmhax_executor_create(&problem, NULL, &executor), INVALID, "hdim_q is 12");
  CHECK(executor == NULL);
  problem = a->problem;
  problem.dtype = 77;
  CHECK_ERROR(fmhax_executor_create(&problem, NULL, &executor), INVALID, "dtype is 77");
  problem = a->problem;
  problem.bias = FMHAX_BIAS_ALIBI;
  problem.alibi_form = FMHAX_ALIBI_COLUMN;
  CHECK_OK(fmhax_problem_validate(&problem));
  problem.alibi_form = 3;
  CHECK_ERROR(fmhax_problem_validate(&problem), INVALID, "alibi_form is 3");
  problem = a->problem;
  problem.reserved = 1;
  CHECK_ERROR(fmhax_executor_create(&problem, NULL, &executor), INVALID, "reserved is 1");

  fmhax_executor_options options;
  CHECK_OK(fmhax_executor_options_init(&options, sizeof options));
  options.kernel = "no-such-kernel";
  CHECK_ERROR(fmhax_executor_create(&a->problem, &options, &executor), FMHAX_ERROR_UNSUPPORTED, "no-such-kernel");
  options.kernel = NULL;
  options.keepalive = 2;
  CHECK_ERROR(fmhax_executor_create(&a->problem, &options, &executor), INVALID, "keepalive is 2");
  options.keepalive = FMHAX_KEEPALIVE_HOST_FUNCTION;
  options.metadata_path = -1;
  CHECK_ERROR(fmhax_executor_create(&a->problem, &options, &executor), INVALID, "metadata_path is -1");
  CHECK(executor == NULL);
  fmhax_graph_cache* cache = NULL;
  CHECK_ERROR(fmhax_graph_cache_create(0, &cache), INVALID, "capacity");
}

static void check_bad_arguments(attention* a, const fmhax_executor* executor) {
  fmhax_call_arguments arguments = a->arguments;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, NULL), INVALID, "workspace is null");
  CHECK(fmhax_last_hip_error() == 0);
  arguments.workspace = attention_allocate(a, 16);
  arguments.workspace_bytes = 16;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, NULL), FMHAX_ERROR_WORKSPACE_TOO_SMALL, "16");
  arguments = a->arguments;
  arguments.dq.dtype = FMHAX_DATA_TYPE_BF16;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, NULL), INVALID, "dq.dtype is bf16");
  arguments = a->arguments;
  arguments.lengths = NULL;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, NULL), INVALID, "seqstart_q is null");
  // The message stays until another call fails on this thread.
  CHECK(strcmp(fmhax_error_code_name(FMHAX_OK), "ok") == 0);
  CHECK_OK(fmhax_problem_validate(&a->problem));
  CHECK(strstr(fmhax_last_error_message(), "seqstart_q is null") != NULL);

  // A HIP call that fails comes with HIP's own number.
  hipStream_t stream = NULL;
  hipGraph_t graph = NULL;
  arguments = a->arguments;
  arguments.workspace_bytes = (int64_t)1 << 20;
  arguments.workspace = attention_allocate(a, (size_t)arguments.workspace_bytes);
  CHECK(hipStreamCreate(&stream) == hipSuccess);
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed) == hipSuccess);
  CHECK(hipStreamSynchronize(stream) != hipSuccess);  // invalidates the capture
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, (fmhax_stream)stream), FMHAX_ERROR_HIP, "capture");
  CHECK(fmhax_last_hip_error() == (int32_t)hipErrorStreamCaptureInvalidated);
  CHECK(hipStreamEndCapture(stream, &graph) != hipSuccess);
  CHECK(hipStreamDestroy(stream) == hipSuccess);
  (void)hipGetLastError();
}

void test_errors(void) {
  attention a;
  attention_create(&a);
  attention_set_starts(&a, (const int32_t[STARTS]){0, 1, 2, 3});
  check_null_handles(&a);
  check_bad_problems(&a);
  fmhax_executor* executor = NULL;
  CHECK_OK(fmhax_executor_create(&a.problem, NULL, &executor));
  check_null_pointers(&a, executor);
  check_bad_arguments(&a, executor);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);

  CHECK(strcmp(fmhax_error_code_name(FMHAX_ERROR_OVERFLOW), "overflow") == 0);
  CHECK(strcmp(fmhax_error_code_name(FMHAX_ERROR_INTERNAL), "internal") == 0);
  CHECK(strcmp(fmhax_error_code_name(99), "unknown_error_code") == 0);
  CHECK(strcmp(fmhax_status_code_name(99), "unknown_status_code") == 0);
}

void test_texts_and_kernels(void) {
  attention a;
  attention_create(&a);
  CHECK(fmhax_version() == FMHAX_VERSION);
  fmhax_executor* executor = NULL;
  CHECK_OK(fmhax_executor_create(&a.problem, NULL, &executor));

  // A text that doesn't fit is cut; its length is told all the same.
  char text[200];
  size_t length = 0;
  CHECK_OK(fmhax_problem_to_string(&a.problem, text, sizeof text, &length));
  CHECK(length == strlen(text));
  CHECK(strncmp(text, "fp32 group batch=3 nhead=4/2", 28) == 0);
  char start[6] = "xxxxx";
  CHECK_OK(fmhax_problem_to_string(&a.problem, start, 5, &length));
  CHECK(strcmp(start, "fp32") == 0 || strcmp(start, "fp32 ") == 0);
  CHECK(length == strlen(text));
  CHECK_OK(fmhax_executor_describe(executor, text, sizeof text, NULL));
  CHECK(strstr(text, "fetch_q") != NULL);
  CHECK_OK(fmhax_executor_dot(executor, text, sizeof text, &length));
  CHECK(strncmp(text, "digraph", 7) == 0);
  CHECK(strlen(text) == sizeof text - 1 && length > strlen(text));

  size_t registered = 0, candidates = 0, chosen = 0;
  const char* name = NULL;
  CHECK_OK(fmhax_registered_kernel_count(&registered));
  CHECK(registered >= 3);
  CHECK_OK(fmhax_executor_candidate_count(executor, &candidates));
  CHECK(candidates == registered);
  CHECK_OK(fmhax_executor_kernel_name(executor, &name));
  for (size_t i = 0; i < candidates; ++i) {
    const char* registered_name = NULL;
    fmhax_candidate candidate = {.struct_size = sizeof candidate};
    CHECK_OK(fmhax_registered_kernel_name(i, &registered_name));
    CHECK_OK(fmhax_executor_candidate(executor, i, &candidate));
    CHECK(strcmp(candidate.name, registered_name) == 0);
    if (!candidate.is_chosen) continue;
    ++chosen;
    CHECK(strcmp(candidate.name, name) == 0);
    CHECK(candidate.unsupported_reason == NULL);
  }
  CHECK(chosen == 1);
  fmhax_candidate candidate = {.struct_size = sizeof candidate};
  CHECK_ERROR(fmhax_executor_candidate(executor, candidates, &candidate), INVALID, "index is");
  CHECK_ERROR(fmhax_registered_kernel_name(registered, &name), INVALID, "index is");

  fmhax_device_traits traits = {.struct_size = sizeof traits};
  CHECK_OK(fmhax_executor_device(executor, &traits));
  CHECK(traits.device == 0 && traits.multiprocessors > 0 && traits.arch[0] != '\0');
  fmhax_executor_destroy(executor);

  // A kernel by name.
  fmhax_executor_options options;
  CHECK_OK(fmhax_executor_options_init(&options, sizeof options));
  options.kernel = "cpu-generic-64x128-general";
  CHECK_OK(fmhax_executor_create(&a.problem, &options, &executor));
  CHECK_OK(fmhax_executor_kernel_name(executor, &name));
  CHECK(strcmp(name, options.kernel) == 0);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}
