// dq_dk_dv for problems whose keys fit one tile: every block sees whole rows of K and writes dq itself.
#include <algorithm>

#include "bodies.hpp"
#include "fmhax/contract/status_access.hpp"
#include "key_tile.hpp"

namespace fmhax::cpu {
namespace {

void fill_gradients(Fill value, const KernelParams& params, IndexRange q_rows, IndexRange k_rows, Block block) {
  const Problem& p = params.problem;
  fill_share(value, params.dq, p, SequenceSide::q, q_rows, p.nhead_q, p.hdim_q, block);
  fill_share(value, params.dk, p, SequenceSide::k, k_rows, p.nhead_k, p.hdim_q, block);
  fill_share(value, params.dv, p, SequenceSide::k, k_rows, p.nhead_k, p.hdim_v, block);
}

void run_head(const KernelParams& params, const TileOps& ops, std::int64_t sequence, std::int64_t key_head) {
  const Problem& p = params.problem;
  const SequenceRange q = sequence_range(p, params.lengths, SequenceSide::q, sequence);
  const std::int64_t group = p.nhead_q / p.nhead_k;
  float* scratch = scratch_memory();
  float d[kM0];
  const KeyTile shape{{}, {}, 0, p.hdim_q, p.hdim_v};
  const IndexRange seeing = run_key_tile(
      params, ops, scratch, {sequence, key_head, 0},
      [&](std::int64_t head, IndexRange rows) {
        dot_do_o_rows(params, ops, sequence, q.start + rows.begin, head, rows.end - rows.begin, d, 1);
        return RowValues{d, 1};
      },
      [&](std::int64_t head, IndexRange rows) {
        ops.store_dq(scratch, shape, rows.end - rows.begin, params.scale,
                     output_rows(params.dq, p, sequence, q.start + rows.begin, head));
      });
  const IndexRange heads{key_head * group, (key_head + 1) * group};
  fill(Fill::zero, params.dq, p, sequence, {q.start, q.start + seeing.begin}, heads, p.hdim_q);
  fill(Fill::zero, params.dq, p, sequence, {q.start + seeing.end, q.start + q.physical}, heads, p.hdim_q);
}

}  // namespace

std::int64_t backward_direct_jobs(const Problem& p) noexcept {
  return std::max(p.batch * p.nhead_k, rows_q(p) + rows_k(p) > 0 ? std::int64_t{1} : 0);
}

void backward_direct(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  const CallStatus found = check_lengths(p, params.lengths);
  if (block.index == 0 && params.status != nullptr) store_status(*params.status, found);
  if (found.code != StatusCode::ok) {
    return fill_gradients(Fill::nan, params, {0, rows_q(p)}, {0, rows_k(p)}, block);
  }
  for (std::int64_t job = block.index; job < p.batch * p.nhead_k; job += block.count) {
    run_head(params, ops, job / p.nhead_k, job % p.nhead_k);
  }
  fill_gradients(Fill::zero, params, tail_rows(p, params.lengths, SequenceSide::q),
                 tail_rows(p, params.lengths, SequenceSide::k), block);
}

}  // namespace fmhax::cpu
