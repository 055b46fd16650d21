/// @file Problems and specs that several workspace tests start from.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "fmhax/contract/problem.hpp"
#include "fmhax/contract/workspace.hpp"

namespace fmhax::test {

inline Problem batch_problem(std::int64_t batch, std::int64_t nhead, std::int64_t seqlen, std::int64_t hdim) {
  Problem p;
  p.batch = batch;
  p.nhead_q = p.nhead_k = nhead;
  p.hdim_q = p.hdim_v = hdim;
  p.max_seqlen_q = p.max_seqlen_k = seqlen;
  return p;
}

/// A group problem whose capacity is just what these lengths need.
inline Problem group_problem(const std::vector<std::int32_t>& seqlens_q, const std::vector<std::int32_t>& seqlens_k,
                             std::int64_t nhead, std::int64_t hdim) {
  Problem p = batch_problem(static_cast<std::int64_t>(seqlens_q.size()), nhead, 0, hdim);
  p.is_group_mode = true;
  for (const std::int32_t n : seqlens_q) {
    p.total_q += n;
    p.max_seqlen_q = n > p.max_seqlen_q ? n : p.max_seqlen_q;
  }
  for (const std::int32_t n : seqlens_k) {
    p.total_k += n;
    p.max_seqlen_k = n > p.max_seqlen_k ? n : p.max_seqlen_k;
  }
  return p;
}

inline std::vector<std::int32_t> starts(const std::vector<std::int32_t>& seqlens) {
  std::vector<std::int32_t> r{0};
  for (const std::int32_t n : seqlens) r.push_back(r.back() + n);
  return r;
}

inline WorkspaceSpec spec_for(const Problem& problem, bool is_deterministic, std::int64_t tile_rows = 64) {
  WorkspaceSpec s;
  s.kN0 = tile_rows;
  s.is_group_mode = problem.is_group_mode;
  s.is_deterministic = is_deterministic;
  return s;
}

inline WorkspaceSpec persistent_spec(std::int64_t workers) {
  WorkspaceSpec s;
  s.kN0 = 64;
  s.workers = workers;
  s.is_deterministic = true;
  s.is_persistent = true;
  return s;
}

}  // namespace fmhax::test
