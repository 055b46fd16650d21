#include <iostream>

#include <fmhax/workspace.hpp>

int main() {
  fmhax::Problem problem{.batch = 2, .nhead_q = 4, .nhead_k = 4, .hdim_q = 64, .max_seqlen_q = 100};
  std::cout << fmhax::workspace_size(fmhax::WorkspaceSpec{}, problem) << '\n';
  return fmhax::workspace_size(fmhax::WorkspaceSpec{}, problem) == 16 + 204800 ? 0 : 1;
}
