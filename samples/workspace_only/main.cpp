// The workspace of a kernel that fmhax has never seen: its author fills a WorkspaceSpec by hand, asks for sizes and
// packs the metadata. Linked with fmhax::workspace alone: no HIP runtime, no kernels, any C++20 compiler.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "fmhax/error.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/status.hpp"
#include "fmhax/workspace.hpp"

namespace {

/// What the metadata say, read as a kernel reads them.
struct Metadata {
  std::vector<std::int32_t> nsplits;
  std::vector<std::int64_t> dq_acc_offsets;  // in elements
};

Metadata read_metadata(const std::vector<unsigned char>& bytes, const fmhax::WorkspaceSpec& spec, std::int64_t batch) {
  Metadata metadata;
  metadata.nsplits.resize(static_cast<std::size_t>(fmhax::nsplits_count(spec, batch)));
  metadata.dq_acc_offsets.resize(static_cast<std::size_t>(batch) + 1);
  std::memcpy(metadata.nsplits.data(), bytes.data(), metadata.nsplits.size() * sizeof(std::int32_t));
  std::memcpy(metadata.dq_acc_offsets.data(), bytes.data() + fmhax::dq_acc_offsets_position(spec, batch),
              metadata.dq_acc_offsets.size() * sizeof(std::int64_t));
  return metadata;
}

/// int32[batch + 1]: where each sequence starts, and the end of the last.
std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), starts.begin() + 1);
  return starts;
}

void print_sequences(const fmhax::WorkspaceSpec& spec, const std::vector<std::int32_t>& lengths_q,
                     const std::vector<std::int32_t>& lengths_k, const Metadata& metadata) {
  std::printf("sequence  seqlen_q  seqlen_k  nsplits  dq_acc_offset  dq_acc bytes\n");
  for (std::size_t i = 0; i < lengths_q.size(); ++i) {
    const std::int64_t elements = metadata.dq_acc_offsets[i + 1] - metadata.dq_acc_offsets[i];
    std::printf("%8zu  %8d  %8d  %7d  %13" PRId64 "  %12" PRId64 "\n", i, lengths_q[i], lengths_k[i],
                metadata.nsplits[i], metadata.dq_acc_offsets[i], elements * spec.acc_element_size);
  }
}

void print_layout(const fmhax::WorkspaceSpec& spec, std::int64_t batch, std::int64_t bytes) {
  const std::int64_t offsets = fmhax::dq_acc_offsets_position(spec, batch);
  const std::int64_t dq_acc = fmhax::workspace_host_size(spec, batch);
  std::printf("at byte  bytes         what\n");
  std::printf("%7d  %-12" PRId64 "  int32 nsplits[%" PRId64 "]\n", 0, offsets, fmhax::nsplits_count(spec, batch));
  std::printf("%7" PRId64 "  %-12" PRId64 "  int64 dq_acc_offsets[%" PRId64 "]\n", offsets, dq_acc - offsets,
              batch + 1);
  std::printf("%7" PRId64 "  %-12" PRId64
              "  float dq_acc[], one sequence after another: [nhead_q, nsplits, seqlen_q, "
              "hdim_q]\n",
              dq_acc, bytes - dq_acc);
}

int run() {
  // The kernel: deterministic, one dq_acc split for each tile of 64 keys, accumulating in fp32. Its mask makes it skip
  // tiles, which leaves holes in dq_acc, so it asks for zeros.
  fmhax::WorkspaceSpec spec;
  spec.kN0 = 64;
  spec.acc_element_size = sizeof(float);
  spec.is_group_mode = true;
  spec.is_deterministic = true;
  spec.needs_zero_dq_acc = true;

  // The batch: five sequences, q and k packed one after another.
  const std::vector<std::int32_t> lengths_q{2048, 512, 300, 1, 0};
  const std::vector<std::int32_t> lengths_k{2048, 700, 300, 65, 10};
  const std::vector<std::int32_t> seqstart_q = starts_of(lengths_q);
  const std::vector<std::int32_t> seqstart_k = starts_of(lengths_k);
  fmhax::Problem problem;
  problem.dtype = fmhax::DataType::bf16;
  problem.is_group_mode = problem.is_deterministic = true;
  problem.batch = static_cast<std::int64_t>(lengths_q.size());
  problem.nhead_q = 16;
  problem.nhead_k = 4;
  problem.hdim_q = problem.hdim_v = 128;
  problem.max_seqlen_q = problem.max_seqlen_k = 2048;
  problem.total_q = seqstart_q.back();
  problem.total_k = seqstart_k.back();
  problem.mask = fmhax::Mask::causal_bottom_right();
  fmhax::validate(problem);

  // Sizes: for this batch, for any batch within the capacity, and what a rectangular layout would take.
  const std::int64_t bytes = fmhax::workspace_size(spec, problem, seqstart_q.data(), seqstart_k.data());
  const std::int64_t bound = fmhax::workspace_size(spec, problem);
  const std::int64_t rectangular = fmhax::rectangular_workspace_size(spec, problem);

  // Contents: what goes to the head of the workspace, here in host memory.
  std::vector<unsigned char> packed(static_cast<std::size_t>(fmhax::workspace_host_size(spec, problem.batch)));
  const fmhax::PackResult result =
      fmhax::pack_workspace_host(spec, problem, seqstart_q.data(), seqstart_k.data(), packed.data());
  if (result.status.code != fmhax::StatusCode::ok) {
    std::fprintf(stderr, "%s\n", fmhax::to_string(result.status).c_str());
    return 1;
  }

  std::printf("problem  %s\n\n", fmhax::to_string(problem).c_str());
  print_sequences(spec, lengths_q, lengths_k, read_metadata(packed, spec, problem.batch));
  std::printf("\n");
  print_layout(spec, problem.batch, bytes);
  std::printf("\nbytes for this batch                %12" PRId64 "\n", bytes);
  std::printf("bytes for any within the capacity   %12" PRId64 "\n", bound);
  std::printf("bytes of a rectangular layout       %12" PRId64 "\n", rectangular);

  // Starts that no kernel could use are refused, and the metadata then say so to the kernels too.
  std::vector<std::int32_t> bad = seqstart_k;
  bad[2] = bad[1] - 1;
  const fmhax::PackResult refused =
      fmhax::pack_workspace_host(spec, problem, seqstart_q.data(), bad.data(), packed.data());
  std::printf("\nrefused  %s; nsplits[0] = %d\n", fmhax::to_string(refused.status).c_str(),
              read_metadata(packed, spec, problem.batch).nsplits[0]);
  return refused.status.code == fmhax::StatusCode::decreasing ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "workspace_only: %s\n", error.what());
    return 1;
  }
}
