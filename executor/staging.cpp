#include "staging.hpp"

#include <new>
#include <utility>

#include "fmhax/contract/status_access.hpp"
#include "fmhax/workspace.hpp"

namespace fmhax::detail {

StagingLayout staging_layout(const WorkspaceSpec& spec, const Problem& problem) {
  const auto entries = static_cast<std::size_t>(problem.batch);
  StagingLayout layout;
  if (problem.is_group_mode) layout.seqstart_bytes = (entries + 1) * sizeof(std::int32_t);
  if (problem.logical_lengths == LogicalLengths::per_sequence) layout.logical_bytes = entries * sizeof(std::int32_t);
  if (problem.logical_lengths == LogicalLengths::cumulative) {
    layout.logical_bytes = (entries + 1) * sizeof(std::int32_t);
  }
  layout.metadata_bytes = static_cast<std::size_t>(workspace_host_size(spec, problem.batch));

  std::size_t position = sizeof(PackJob);
  const auto place = [&position](std::size_t bytes) {
    position = static_cast<std::size_t>(round_up_to_alignment(static_cast<std::int64_t>(position)));
    return std::exchange(position, position + bytes);
  };
  layout.seqstart_q = place(layout.seqstart_bytes);
  layout.seqstart_k = place(layout.seqstart_bytes);
  layout.logical_q = place(layout.logical_bytes);
  layout.logical_k = place(layout.logical_bytes);
  layout.metadata = place(layout.metadata_bytes);
  layout.bytes = position;
  return layout;
}

PackJob* make_pack_job(void* staging, const StagingLayout& layout, const WorkspaceSpec& spec, const Problem& problem,
                       std::int64_t dq_acc_capacity, CallStatus* status) {
  auto* base = static_cast<std::byte*>(staging);
  const auto array = [base](std::size_t position) { return reinterpret_cast<const std::int32_t*>(base + position); };
  SequenceLengths lengths;
  if (problem.is_group_mode) {
    lengths.seqstart_q = array(layout.seqstart_q);
    lengths.seqstart_k = array(layout.seqstart_k);
  }
  if (problem.logical_lengths == LogicalLengths::per_sequence) {
    lengths.seqlen_q = array(layout.logical_q);
    lengths.seqlen_k = array(layout.logical_k);
  } else if (problem.logical_lengths == LogicalLengths::cumulative) {
    lengths.cu_seqlen_q = array(layout.logical_q);
    lengths.cu_seqlen_k = array(layout.logical_k);
  }
  return new (staging) PackJob{problem, spec, lengths, base + layout.metadata, dq_acc_capacity, status};
}

void run_pack_job(void* user_data) noexcept {
  const auto& job = *static_cast<const PackJob*>(user_data);
  const PackResult result = pack_workspace_host(job.spec, job.problem, job.lengths, job.metadata, job.dq_acc_capacity);
  if (job.status != nullptr) store_status(*job.status, result.status);
}

}  // namespace fmhax::detail
