#include <iostream>

#include <fmhax/fmhax.hpp>

int main() {
  fmhax::Problem problem{.dtype = fmhax::DataType::fp32, .batch = 1, .nhead_q = 2, .nhead_k = 2, .hdim_q = 64};
  problem.hdim_v = problem.max_seqlen_q = problem.max_seqlen_k = 64;
  std::cout << fmhax::Executor(problem).kernel_choice().entry().name << '\n';
}
