#include <stdio.h>

#include <fmhax/workspace.h>

int main(void) {
  fmhax_workspace_spec spec;
  fmhax_problem problem;
  int64_t bytes = 0;
  if (fmhax_workspace_spec_init(&spec, sizeof spec) != FMHAX_OK) return 1;
  if (fmhax_problem_init(&problem, sizeof problem) != FMHAX_OK) return 1;
  problem.batch = 2;
  problem.nhead_q = problem.nhead_k = 4;
  problem.hdim_q = 64;
  problem.max_seqlen_q = 100;
  if (fmhax_workspace_size(&spec, &problem, &bytes) != FMHAX_OK) return 1;
  printf("%lld\n", (long long)bytes);
  return bytes == 16 + 204800 ? 0 : 1;
}
