// Allocators of the caller's, and structs of other versions.
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "tests.h"

/// What the callbacks were asked for.
typedef struct asked {
  void* workspace;  ///< what workspace_alloc gives
  size_t workspace_bytes;
  int workspace_calls;
  int last_zero_init;
  int gives_pinned;
  int pinned_calls;
  int pinned_frees;
  int releases;
} asked;

static void* give_workspace(void* user, size_t bytes, int32_t zero_init) {
  asked* a = (asked*)user;
  ++a->workspace_calls;
  a->last_zero_init = zero_init;
  if (a->workspace == NULL || bytes > a->workspace_bytes) return NULL;
  if (zero_init) memset(a->workspace, 0, bytes);
  return a->workspace;
}

static void* give_pinned(void* user, size_t bytes) {
  asked* a = (asked*)user;
  void* memory = NULL;
  if (!a->gives_pinned || hipHostMalloc(&memory, bytes, hipHostMallocDefault) != hipSuccess) return NULL;
  ++a->pinned_calls;
  return memory;
}

static void take_pinned(void* user, void* memory) {
  ++((asked*)user)->pinned_frees;
  (void)hipHostFree(memory);
}

static void release(void* user) { ++((asked*)user)->releases; }

static fmhax_executor_options options_for(asked* user) {
  fmhax_executor_options options;
  CHECK_OK(fmhax_executor_options_init(&options, sizeof options));
  options.workspace_alloc = give_workspace;
  options.pinned_alloc = give_pinned;
  options.pinned_free = take_pinned;
  options.user = user;
  options.release_user = release;
  return options;
}

static void run_with_callbacks(void) {
  attention a;
  attention_create(&a);
  attention_set_starts(&a, (const int32_t[STARTS]){0, 50, 60, 300});
  asked user = {0};
  const fmhax_executor_options options = options_for(&user);
  fmhax_executor* executor = NULL;
  CHECK_OK(fmhax_executor_create(&a.problem, &options, &executor));
  int64_t bytes = 0;
  CHECK_OK(fmhax_executor_workspace_size(executor, &bytes));

  // Nothing given: nothing enqueued.
  CHECK_OK(fmhax_executor_enqueue_forward(executor, &a.arguments, NULL));
  attention_spoil_gradients(&a);
  CHECK_ERROR(fmhax_executor_enqueue(executor, &a.arguments, NULL), FMHAX_ERROR_OUT_OF_MEMORY, "workspace_alloc");
  user.workspace = attention_allocate(&a, (size_t)bytes);
  user.workspace_bytes = (size_t)bytes;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &a.arguments, NULL), FMHAX_ERROR_OUT_OF_MEMORY, "pinned_host_alloc");
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(((float*)a.arguments.dq.data)[0] == 7.0F);

  user.gives_pinned = 1;
  CHECK_OK(fmhax_executor_enqueue(executor, &a.arguments, NULL));
  CHECK(attention_error(&a) <= 1e-5);
  CHECK(user.workspace_calls == 3);
  CHECK(user.last_zero_init == 1);  // the causal mask leaves holes
  CHECK(user.pinned_calls == 1);

  fmhax_graph* graph = NULL;
  CHECK_OK(fmhax_graph_create(executor, &a.arguments, &graph));
  CHECK(user.workspace_calls == 4);
  CHECK(user.last_zero_init == 0);
  CHECK(user.pinned_calls == 2);
  attention_spoil_gradients(&a);
  CHECK_OK(fmhax_graph_launch(graph, NULL));
  CHECK(attention_error(&a) <= 1e-5);
  CHECK(user.pinned_frees == 1);  // of the eager call, by what came after it
  fmhax_executor_destroy(executor);
  CHECK(user.releases == 0);  // the graph still refers to the callbacks
  fmhax_graph_destroy(graph);
  CHECK(hipDeviceSynchronize() == hipSuccess);

  // Pinned memory of the graph's last launch comes back by a later call on the device.
  fmhax_executor* later = NULL;
  CHECK_OK(fmhax_executor_create(&a.problem, NULL, &later));
  fmhax_executor_destroy(later);
  CHECK(user.pinned_frees == 2);
  CHECK(user.releases == 1);
  attention_destroy(&a);
}

void test_callbacks(void) {
  run_with_callbacks();

  // A create that fails leaves the user pointer with the caller.
  attention a;
  attention_create(&a);
  asked user = {0};
  fmhax_executor_options options = options_for(&user);
  fmhax_executor* executor = NULL;
  options.kernel = "no-such-kernel";
  CHECK_ERROR(fmhax_executor_create(&a.problem, &options, &executor), FMHAX_ERROR_UNSUPPORTED, "no-such-kernel");
  CHECK(user.releases == 0);
  options = options_for(&user);
  options.pinned_alloc = NULL;
  CHECK_ERROR(fmhax_executor_create(&a.problem, &options, &executor), FMHAX_ERROR_INVALID_ARGUMENT, "pinned_free");
  CHECK(user.releases == 0);
  options.pinned_free = NULL;
  CHECK_OK(fmhax_executor_create(&a.problem, &options, &executor));
  fmhax_executor_destroy(executor);
  CHECK(user.releases == 1);
  attention_destroy(&a);
}

void test_old_and_new_structs(void) {
  attention a;
  attention_create(&a);
  fmhax_executor* executor = NULL;

  // Options of a program whose header ended after keepalive: what lies behind isn't read.
  fmhax_executor_options options;
  memset(&options, 0x5a, sizeof options);
  const uint32_t old_size = offsetof(fmhax_executor_options, metadata_path);
  CHECK_OK(fmhax_executor_options_init(&options, old_size));
  CHECK(options.struct_size == old_size && options.keepalive == FMHAX_KEEPALIVE_EVENT);
  CHECK(options.metadata_path == 0x5a5a5a5a);  // nor written
  CHECK_OK(fmhax_executor_create(&a.problem, &options, &executor));

  // The same for results.
  fmhax_candidate candidate;
  memset(&candidate, 0x5a, sizeof candidate);
  candidate.struct_size = offsetof(fmhax_candidate, rank);
  const int64_t untouched = candidate.rank;
  CHECK_OK(fmhax_executor_candidate(executor, 0, &candidate));
  CHECK(candidate.struct_size == offsetof(fmhax_candidate, rank) && candidate.name != NULL);
  CHECK(candidate.rank == untouched);

  // Not initialised, or of a program newer than the library.
  fmhax_problem problem = a.problem;
  problem.struct_size = 0;
  CHECK_ERROR(fmhax_problem_validate(&problem), FMHAX_ERROR_INVALID_ARGUMENT, "problem.struct_size is 0");
  problem.struct_size = sizeof problem + 8;
  CHECK_ERROR(fmhax_problem_validate(&problem), FMHAX_ERROR_INVALID_ARGUMENT, "problem.struct_size");
  CHECK_ERROR(fmhax_problem_init(&problem, sizeof problem + 8), FMHAX_ERROR_INVALID_ARGUMENT, "problem.struct_size");
  candidate.struct_size = 0;
  CHECK_ERROR(fmhax_executor_candidate(executor, 0, &candidate), FMHAX_ERROR_INVALID_ARGUMENT, "candidate.struct_size");
  fmhax_call_arguments arguments = a.arguments;
  fmhax_sequence_lengths lengths = a.lengths;
  lengths.struct_size = 3;
  arguments.lengths = &lengths;
  CHECK_ERROR(fmhax_executor_enqueue(executor, &arguments, NULL), FMHAX_ERROR_INVALID_ARGUMENT, "lengths.struct_size");
  fmhax_executor_destroy(executor);
  attention_destroy(&a);
}
