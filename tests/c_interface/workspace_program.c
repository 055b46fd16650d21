// workspace.h used from C, linked with fmhax::workspace alone: sizes and contents of one small workspace, by hand.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fmhax/workspace.h"

/// Two heads of 8 elements, deterministic, a split for each 4 keys; sequences of 3 and 2 rows with 9 and 4 keys.
static const int32_t kStartsQ[3] = {0, 3, 5};
static const int32_t kStartsK[3] = {0, 9, 13};

static void check_contents(const unsigned char* packed) {
  int32_t nsplits[2];
  int64_t offsets[3];
  memcpy(nsplits, packed, sizeof nsplits);
  memcpy(offsets, packed + 16, sizeof offsets);
  CHECK(nsplits[0] == 3 && nsplits[1] == 1);
  CHECK(offsets[0] == 0 && offsets[1] == 2 * 3 * 3 * 8 && offsets[2] == offsets[1] + 2 * 1 * 2 * 8);
}

/// Logical lengths, per sequence and cumulative, each too long by one on one side.
static void check_logical_lengths(const fmhax_workspace_spec* spec, fmhax_problem problem,
                                  fmhax_sequence_lengths lengths) {
  static const int32_t kSeqlens[2][2] = {{3, 2}, {9, 4}};
  static const int32_t kLong[2][2] = {{3, 3}, {9, 5}};
  static const int32_t kCumulative[2][3] = {{0, 3, 5}, {0, 9, 13}};
  static const int32_t kLongCumulative[2][3] = {{0, 3, 6}, {0, 9, 14}};
  unsigned char packed[48];
  for (int is_cumulative = 0; is_cumulative < 2; ++is_cumulative) {
    problem.logical_lengths = is_cumulative ? FMHAX_LOGICAL_LENGTHS_CUMULATIVE : FMHAX_LOGICAL_LENGTHS_PER_SEQUENCE;
    for (int long_side = -1; long_side <= FMHAX_SIDE_K; ++long_side) {
      lengths.seqlen_q = is_cumulative ? NULL : (long_side == FMHAX_SIDE_Q ? kLong : kSeqlens)[0];
      lengths.seqlen_k = is_cumulative ? NULL : (long_side == FMHAX_SIDE_K ? kLong : kSeqlens)[1];
      lengths.cu_seqlen_q = is_cumulative ? (long_side == FMHAX_SIDE_Q ? kLongCumulative : kCumulative)[0] : NULL;
      lengths.cu_seqlen_k = is_cumulative ? (long_side == FMHAX_SIDE_K ? kLongCumulative : kCumulative)[1] : NULL;
      fmhax_call_status status = {.struct_size = sizeof status};
      CHECK_OK(fmhax_pack_workspace_host(spec, &problem, &lengths, -1, packed, sizeof packed, NULL, &status));
      if (long_side < 0) {
        CHECK(status.code == FMHAX_STATUS_OK);
        check_contents(packed);
      } else {
        CHECK(status.code == FMHAX_STATUS_BAD_LOGICAL_LENGTH && status.side == long_side && status.sequence == 1);
        CHECK(status.value == status.limit + 1 && status.limit == (long_side == FMHAX_SIDE_Q ? 2 : 4));
      }
    }
  }
}

int main(void) {
  fmhax_workspace_spec spec;
  fmhax_problem problem;
  fmhax_sequence_lengths lengths;
  CHECK_OK(fmhax_workspace_spec_init(&spec, sizeof spec));
  CHECK_OK(fmhax_problem_init(&problem, sizeof problem));
  CHECK_OK(fmhax_sequence_lengths_init(&lengths, sizeof lengths));
  CHECK(spec.acc_element_size == 4 && problem.dtype == FMHAX_DATA_TYPE_BF16);
  CHECK(problem.mask.window_left == -1 && problem.mask.window_right == -1 && lengths.seqstart_q == NULL);
  spec.kN0 = 4;
  spec.is_group_mode = spec.is_deterministic = 1;
  problem.is_group_mode = problem.is_deterministic = 1;
  problem.batch = 2;
  problem.nhead_q = problem.nhead_k = 2;
  problem.hdim_q = problem.hdim_v = 8;
  problem.max_seqlen_q = problem.total_q = 5;
  problem.max_seqlen_k = problem.total_k = 13;
  CHECK_OK(fmhax_problem_validate(&problem));
  lengths.seqstart_q = kStartsQ;
  lengths.seqstart_k = kStartsK;

  int64_t host_size = 0, exact = 0, capacity = 0, rectangular = 0, splits = 0, dq_acc = 0;
  CHECK_OK(fmhax_workspace_host_size(&spec, 2, &host_size));
  CHECK(host_size == 16 + 32);
  CHECK_OK(fmhax_split_count(&spec, &problem, 9, &splits));
  CHECK(splits == 3);
  CHECK_OK(fmhax_workspace_size_of_starts(&spec, &problem, kStartsQ, kStartsK, &exact));
  CHECK(exact == 48 + (2 * 3 * 3 * 8 + 2 * 1 * 2 * 8) * 4);
  CHECK_OK(fmhax_workspace_size(&spec, &problem, &capacity));
  CHECK(capacity == 48 + 2 * 4 * 5 * 8 * 4);  // all rows in the sequence with all keys
  CHECK_OK(fmhax_rectangular_workspace_size(&spec, &problem, &rectangular));
  CHECK(rectangular == 2 * 2 * 4 * 5 * 8 * 4);

  unsigned char packed[48];
  fmhax_call_status status = {.struct_size = sizeof status};
  CHECK_OK(fmhax_pack_workspace_host(&spec, &problem, &lengths, -1, packed, sizeof packed, &dq_acc, &status));
  CHECK(status.code == FMHAX_STATUS_OK && dq_acc == exact - host_size);
  check_contents(packed);
  check_logical_lengths(&spec, problem, lengths);

  // Refused batches are told by the status and in the metadata; a batch that doesn't fit too.
  const int32_t beyond[3] = {0, 9, 14};
  int32_t first = 0;
  lengths.seqstart_k = beyond;
  CHECK_OK(fmhax_pack_workspace_host(&spec, &problem, &lengths, -1, packed, sizeof packed, NULL, &status));
  CHECK(status.code == FMHAX_STATUS_EXCEEDS_TOKENS && status.side == FMHAX_SIDE_K && status.sequence == 1);
  memcpy(&first, packed, sizeof first);
  CHECK(first == -1);
  lengths.seqstart_k = kStartsK;
  CHECK_OK(fmhax_pack_workspace_host(&spec, &problem, &lengths, dq_acc - 4, packed, sizeof packed, NULL, &status));
  CHECK(status.code == FMHAX_STATUS_WORKSPACE_TOO_SMALL && status.value == dq_acc && status.limit == dq_acc - 4);

  CHECK_ERROR(fmhax_pack_workspace_host(&spec, &problem, &lengths, -1, packed, 47, NULL, NULL),
              FMHAX_ERROR_WORKSPACE_TOO_SMALL, "out_bytes is 47");
  CHECK_ERROR(fmhax_pack_workspace_host(&spec, &problem, &lengths, -1, NULL, 48, NULL, NULL),
              FMHAX_ERROR_INVALID_ARGUMENT, "out is null");
  CHECK_ERROR(fmhax_pack_workspace_host(&spec, &problem, NULL, -1, packed, 48, NULL, NULL),
              FMHAX_ERROR_INVALID_ARGUMENT, "host_lengths is null");
  CHECK_ERROR(fmhax_workspace_size(NULL, &problem, &capacity), FMHAX_ERROR_INVALID_ARGUMENT, "spec is null");
  CHECK_ERROR(fmhax_workspace_size(&spec, NULL, &capacity), FMHAX_ERROR_INVALID_ARGUMENT, "problem is null");
  CHECK_ERROR(fmhax_workspace_size(&spec, &problem, NULL), FMHAX_ERROR_INVALID_ARGUMENT, "bytes is null");
  CHECK_ERROR(fmhax_workspace_size_of_starts(&spec, &problem, beyond, NULL, &exact), FMHAX_ERROR_INVALID_ARGUMENT,
              "seqstart_k is null");
  CHECK_ERROR(fmhax_workspace_host_size(&spec, INT64_MAX / 2, &host_size), FMHAX_ERROR_OVERFLOW, "64 bits");
  spec.kN0 = 0;
  CHECK_ERROR(fmhax_pack_workspace_host(&spec, &problem, &lengths, -1, packed, 48, NULL, NULL),
              FMHAX_ERROR_INVALID_ARGUMENT, "kN0 is 0");
  if (failed_checks == 0) printf("passed\n");
  return failed_checks == 0 ? 0 : 1;
}
