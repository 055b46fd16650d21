// Running: eager, in parts, as a graph, through a cache.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "tests.h"

static const double kTolerance = 1e-5;
static const int32_t kFirst[STARTS] = {0, 150, 178, 320};
static const int32_t kSecond[STARTS] = {0, 7, 7, 250};
static const int32_t kDecreasing[STARTS] = {0, 100, 90, 320};

static fmhax_executor* create_executor(const attention* a) {
  fmhax_executor* executor = NULL;
  CHECK_OK(fmhax_executor_create(&a->problem, NULL, &executor));
  CHECK(executor != NULL);
  return executor;
}

/// Device memory for the capacity, as part of the arguments.
static void give_workspace(attention* a, const fmhax_executor* executor) {
  int64_t bytes = 0;
  CHECK_OK(fmhax_executor_workspace_size(executor, &bytes));
  CHECK(bytes > 0);
  a->arguments.workspace = attention_allocate(a, (size_t)bytes);
  a->arguments.workspace_bytes = bytes;
}

static void set_starts_and_run_forward(attention* a, const fmhax_executor* executor, const int32_t starts[STARTS]) {
  attention_set_starts(a, starts);
  attention_spoil_gradients(a);
  CHECK_OK(fmhax_executor_enqueue_forward(executor, &a->arguments, NULL));
}

void test_backward(void) {
  attention a;
  attention_create(&a);
  fmhax_executor* executor = create_executor(&a);
  give_workspace(&a, executor);
  CHECK_OK(fmhax_status_buffer_create(&a.arguments.status));
  const int32_t* const starts[] = {kFirst, kSecond};
  for (int i = 0; i < 2; ++i) {
    set_starts_and_run_forward(&a, executor, starts[i]);
    CHECK_OK(fmhax_executor_enqueue(executor, &a.arguments, NULL));
    CHECK(attention_error(&a) <= kTolerance);
    fmhax_call_status status = {.struct_size = sizeof status};
    CHECK_OK(fmhax_status_buffer_read(a.arguments.status, &status));
    CHECK(status.code == FMHAX_STATUS_OK);
    CHECK(status.checks == i + 1);
  }

  // The test itself: other inputs are noticed.
  ((float*)a.arguments.v.data)[0] += 0.5F;
  CHECK(attention_error(&a) > kTolerance);
  ((float*)a.arguments.v.data)[0] -= 0.5F;

  set_starts_and_run_forward(&a, executor, kFirst);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  attention_set_starts(&a, kDecreasing);
  CHECK_OK(fmhax_executor_enqueue(executor, &a.arguments, NULL));
  CHECK(attention_gradients_are_nan(&a));
  fmhax_call_status status = {.struct_size = sizeof status};
  CHECK_OK(fmhax_status_buffer_read(a.arguments.status, &status));
  CHECK(status.code == FMHAX_STATUS_DECREASING);
  CHECK(status.side == FMHAX_SIDE_Q);
  CHECK(status.sequence == 1);
  CHECK(status.value == 90);
  CHECK(status.limit == 100);
  char text[128];
  CHECK_OK(fmhax_call_status_to_string(&status, text, sizeof text, NULL));
  CHECK(strcmp(text, "sequence 1 of q ends before it starts: seqstart_q[2] = 90 < 100") == 0);
  CHECK(strcmp(fmhax_status_code_name(status.code), "decreasing") == 0);

  fmhax_status_buffer_destroy(a.arguments.status);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}

void test_parts(void) {
  attention a;
  attention_create(&a);
  fmhax_executor* executor = create_executor(&a);
  set_starts_and_run_forward(&a, executor, kFirst);
  CHECK(hipDeviceSynchronize() == hipSuccess);

  // From host starts: exactly the bytes that they need.
  int64_t exact = 0, capacity = 0;
  CHECK_OK(fmhax_executor_workspace_size_of_starts(executor, kFirst, kFirst, &exact));
  CHECK_OK(fmhax_executor_workspace_size(executor, &capacity));
  CHECK(0 < exact && exact <= capacity);
  a.arguments.workspace = attention_allocate(&a, (size_t)exact);
  a.arguments.workspace_bytes = exact;
  fmhax_sequence_lengths host;
  CHECK_OK(fmhax_sequence_lengths_init(&host, sizeof host));
  host.seqstart_q = host.seqstart_k = kFirst;
  CHECK_OK(fmhax_executor_prepare_workspace(executor, &a.arguments, &host, NULL));
  CHECK_OK(fmhax_executor_enqueue_kernels(executor, &a.arguments, NULL));
  CHECK(attention_error(&a) <= kTolerance);

  // What was uploaded is what packing on the host gives.
  fmhax_workspace_spec spec = {.struct_size = sizeof spec};
  fmhax_problem problem = {.struct_size = sizeof problem};
  CHECK_OK(fmhax_executor_workspace_spec(executor, &spec));
  CHECK_OK(fmhax_executor_problem(executor, &problem));
  char given[200], told[200];
  CHECK_OK(fmhax_problem_to_string(&a.problem, given, sizeof given, NULL));
  CHECK_OK(fmhax_problem_to_string(&problem, told, sizeof told, NULL));
  CHECK(strcmp(given, told) == 0);
  unsigned char packed[256];
  int64_t host_size = 0, dq_acc_bytes = 0;
  CHECK_OK(fmhax_workspace_host_size(&spec, problem.batch, &host_size));
  CHECK(host_size <= (int64_t)sizeof packed);
  CHECK_OK(fmhax_pack_workspace_host(&spec, &problem, &host, -1, packed, sizeof packed, &dq_acc_bytes, NULL));
  CHECK(host_size + dq_acc_bytes == exact);
  CHECK(memcmp(packed, a.arguments.workspace, (size_t)host_size) == 0);

  // From device starts.
  give_workspace(&a, executor);
  set_starts_and_run_forward(&a, executor, kSecond);
  CHECK_OK(fmhax_executor_prepare_workspace_async(executor, &a.arguments, NULL));
  CHECK_OK(fmhax_executor_enqueue_kernels(executor, &a.arguments, NULL));
  CHECK(attention_error(&a) <= kTolerance);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}

void test_graph(void) {
  attention a;
  attention_create(&a);
  fmhax_executor* executor = create_executor(&a);
  attention_set_starts(&a, kFirst);
  fmhax_graph* graph = NULL;
  CHECK_OK(fmhax_graph_create(executor, &a.arguments, &graph));
  const int32_t* const starts[] = {kFirst, kSecond, kFirst};
  for (int i = 0; i < 3; ++i) {
    set_starts_and_run_forward(&a, executor, starts[i]);
    CHECK_OK(fmhax_graph_launch(graph, NULL));
    CHECK(attention_error(&a) <= kTolerance);
  }
  fmhax_call_status status = {.struct_size = sizeof status};
  CHECK_OK(fmhax_graph_status(graph, &status));
  CHECK(status.code == FMHAX_STATUS_OK);
  attention_set_starts(&a, kDecreasing);
  CHECK_OK(fmhax_graph_launch(graph, NULL));
  CHECK(attention_gradients_are_nan(&a));
  CHECK_OK(fmhax_graph_status(graph, &status));
  CHECK(status.code == FMHAX_STATUS_DECREASING);

  // Other arguments; the executor may go before the graph.
  set_starts_and_run_forward(&a, executor, kSecond);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  fmhax_call_arguments other = a.arguments;
  other.dq.data = attention_allocate(&a, TOKENS * HEADS_Q * HDIM_Q * sizeof(float));
  CHECK_OK(fmhax_graph_update(graph, &other));
  fmhax_executor_destroy(executor);
  CHECK_OK(fmhax_graph_launch(graph, NULL));
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(((float*)a.arguments.dq.data)[0] == 7.0F);
  a.arguments.dq = other.dq;
  CHECK(attention_error(&a) <= kTolerance);

  fmhax_graph_counters counters = {.struct_size = sizeof counters};
  CHECK_OK(fmhax_graph_get_counters(graph, &counters));
  CHECK(counters.launches == 5);
  CHECK(counters.updates + counters.rebuilds == 1);
  fmhax_hip_graph native = NULL;
  size_t nodes = 0;
  CHECK_OK(fmhax_graph_native(graph, &native));
  CHECK(hipGraphGetNodes((hipGraph_t)native, NULL, &nodes) == hipSuccess);
  CHECK(nodes >= 3);
  size_t length = 0;
  CHECK_OK(fmhax_graph_dot(graph, NULL, 0, &length));
  CHECK(length > 0);
  fmhax_graph_destroy(graph);
  attention_destroy(&a);
}

void test_graph_cache(void) {
  attention a;
  attention_create(&a);
  fmhax_executor* executor = create_executor(&a);
  fmhax_graph_cache* cache = NULL;
  CHECK_OK(fmhax_graph_cache_create(2, &cache));
  size_t size = 9, capacity = 0;
  CHECK_OK(fmhax_graph_cache_size(cache, &size));
  CHECK_OK(fmhax_graph_cache_capacity(cache, &capacity));
  CHECK(size == 0 && capacity == 2);
  const int32_t* const starts[] = {kFirst, kSecond, kFirst};
  for (int i = 0; i < 3; ++i) {
    set_starts_and_run_forward(&a, executor, starts[i]);
    CHECK_OK(fmhax_graph_cache_launch(cache, executor, &a.arguments, NULL));
    CHECK(attention_error(&a) <= kTolerance);
  }
  fmhax_graph_cache_counters counters = {.struct_size = sizeof counters};
  CHECK_OK(fmhax_graph_cache_get_counters(cache, &counters));
  CHECK(counters.misses == 1 && counters.hits == 2 && counters.evictions == 0);
  CHECK_OK(fmhax_graph_cache_size(cache, &size));
  CHECK(size == 1);
  CHECK_OK(fmhax_graph_cache_clear(cache));
  CHECK_OK(fmhax_graph_cache_size(cache, &size));
  CHECK(size == 0);
  fmhax_graph_cache_destroy(cache);
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}
