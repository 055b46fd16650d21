#include <stdio.h>

#include <fmhax/fmhax.h>

int main(void) {
  fmhax_problem problem;
  fmhax_executor* executor = NULL;
  const char* name = NULL;
  if (fmhax_version() != FMHAX_VERSION || fmhax_problem_init(&problem, sizeof problem) != FMHAX_OK) return 1;
  problem.dtype = FMHAX_DATA_TYPE_FP32;
  problem.batch = 1;
  problem.nhead_q = problem.nhead_k = 2;
  problem.hdim_q = problem.hdim_v = problem.max_seqlen_q = problem.max_seqlen_k = 64;
  if (fmhax_executor_create(&problem, NULL, &executor) != FMHAX_OK ||
      fmhax_executor_kernel_name(executor, &name) != FMHAX_OK) {
    fprintf(stderr, "%s\n", fmhax_last_error_message());
    return 1;
  }
  printf("%s\n", name);
  fmhax_executor_destroy(executor);
  return 0;
}
