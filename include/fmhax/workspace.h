/// @file The workspace for C: sizes and contents as plain functions over plain data. Needs neither HIP nor any kernel
/// and is in fmhax::workspace. A C program needs a C++ linker. fmhax.h holds the rest of the C interface; its rules are
/// these:
///
/// Errors. Every function that can fail returns an fmhax_error_code and leaves a message for the calling thread. No C++
/// exception leaves a function, also none of a callback's. A null handle or pointer is an error
/// (FMHAX_ERROR_INVALID_ARGUMENT) unless it is said to be optional; after an error the results are as they were, but
/// for handles, which are then null.
///
/// Structs. A struct that is passed by pointer starts with struct_size, the bytes that the caller's header gives it.
/// New fields come at the end, so that an old program runs with a newer library: fields beyond struct_size have their
/// defaults, results stop there. Structs that go in are filled by fmhax_..._init(&s, sizeof s) and then changed; for
/// those that come out set struct_size = sizeof s. A size of 0 or above the library's own is refused. fmhax_mask and
/// fmhax_tensor are parts of others and never change. Flags are false when 0.
///
/// Handles. Made by ..._create, owned by the caller, destroyed by ..._destroy (null: nothing happens). Any thread may
/// use any handle, also several at once; a handle must not be in use while it is destroyed. What is passed in is
/// copied: structs, arrays and strings need not outlive the call; what device pointers refer to must.
#ifndef FMHAX_WORKSPACE_H
#define FMHAX_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

#include "fmhax/version.hpp"

#ifdef __cplusplus
extern "C" {
#endif

// Version -------------------------------------------------------------------------------------------------------------

/// major * 10000 + minor * 100 + patch, of this header.
#define FMHAX_VERSION (FMHAX_VERSION_MAJOR * 10000 + FMHAX_VERSION_MINOR * 100 + FMHAX_VERSION_PATCH)
/// The same of the library that runs.
int32_t fmhax_version(void);

// Errors --------------------------------------------------------------------------------------------------------------

/// The values of fmhax::ErrorCode, and two of C's own.
typedef int32_t fmhax_error_code;
enum {
  FMHAX_OK = 0,
  FMHAX_ERROR_INVALID_ARGUMENT = 1,  ///< a field has a value that is never allowed, or two fields disagree
  FMHAX_ERROR_UNSUPPORTED = 2,       ///< a valid problem that no registered kernel can run
  FMHAX_ERROR_WORKSPACE_TOO_SMALL = 3,
  FMHAX_ERROR_OVERFLOW = 4,       ///< a size does not fit 64 bits
  FMHAX_ERROR_OUT_OF_MEMORY = 5,  ///< an allocator, the caller's or the runtime's, gave nothing
  FMHAX_ERROR_HIP = 6,            ///< a HIP call failed; fmhax_last_hip_error() says how
  FMHAX_ERROR_INTERNAL = -1       ///< any other C++ exception, e.g. out of a callback
};

/// What the latest call that failed on this thread said: the field, what was given, what is allowed. Empty before any.
/// Valid until the next call that fails on this thread.
const char* fmhax_last_error_message(void);
/// The hipError_t of the latest call that failed on this thread, 0 (hipSuccess) when that was no HIP call.
int32_t fmhax_last_hip_error(void);
/// Name of a code, e.g. "invalid_argument", "ok", "internal".
const char* fmhax_error_code_name(fmhax_error_code code);

// Texts come as from snprintf: at most `capacity` bytes with the final 0 go to `text` (optional when capacity is 0),
// the whole length without it to `length` (optional). A text that is cut is no error.

// Problem -------------------------------------------------------------------------------------------------------------

/// Values of fmhax::DataType.
enum {
  FMHAX_DATA_TYPE_FP32 = 0,
  FMHAX_DATA_TYPE_FP16 = 1,
  FMHAX_DATA_TYPE_BF16 = 2,
  FMHAX_DATA_TYPE_UINT8 = 3  ///< random values alone
};
/// Values of fmhax::MaskAlignment.
enum { FMHAX_MASK_ALIGNMENT_TOP_LEFT = 0, FMHAX_MASK_ALIGNMENT_BOTTOM_RIGHT = 1 };
/// Values of fmhax::LogicalLengths.
enum {
  FMHAX_LOGICAL_LENGTHS_NONE = 0,
  FMHAX_LOGICAL_LENGTHS_PER_SEQUENCE = 1,  ///< seqlen_q[batch], seqlen_k[batch]
  FMHAX_LOGICAL_LENGTHS_CUMULATIVE = 2     ///< cu_seqlen_q[batch + 1], cu_seqlen_k[batch + 1]
};
/// Values of fmhax::BiasKind.
enum { FMHAX_BIAS_NONE = 0, FMHAX_BIAS_ELEMENTWISE = 1, FMHAX_BIAS_ALIBI = 2 };
/// Values of fmhax::AlibiForm: what is added to the logit of query row i and key j.
enum {
  FMHAX_ALIBI_DISTANCE_TOP_LEFT = 0,      ///< -slope * |i - j|
  FMHAX_ALIBI_DISTANCE_BOTTOM_RIGHT = 1,  ///< -slope * |i + seqlen_k - seqlen_q - j|
  FMHAX_ALIBI_COLUMN = 2                  ///< slope * j
};

/// Query row i sees key j when j >= i + offset - window_left and j <= i + offset + window_right, each unbounded when
/// -1; offset is 0 (top-left) or seqlen_k - seqlen_q (bottom-right). No mask is {.., -1, -1}, causal {.., -1, 0}.
typedef struct fmhax_mask {
  int32_t alignment;
  int64_t window_left;
  int64_t window_right;
} fmhax_mask;

/// One backward problem, or in group mode the capacity of one; fmhax::Problem says more.
typedef struct fmhax_problem {
  uint32_t struct_size;
  int32_t dtype;
  int32_t is_group_mode;  ///< sequences packed one after another, bounds in seqstart_q, seqstart_k
  int32_t is_deterministic;
  int64_t batch;  ///< sequences; in group mode the most that a call may have
  int64_t nhead_q;
  int64_t nhead_k;       ///< divides nhead_q
  int64_t hdim_q;        ///< of q and k
  int64_t hdim_v;        ///< of v and o
  int64_t max_seqlen_q;  ///< batch mode: every length; group mode: the longest allowed
  int64_t max_seqlen_k;
  int64_t total_q;  ///< group mode: rows of q, padding included; batch mode: 0
  int64_t total_k;
  fmhax_mask mask;
  int32_t logical_lengths;
  int32_t bias;
  int32_t has_dbias;
  int32_t has_dropout;
  int32_t stores_random_values;
  int32_t has_sink;
  int32_t has_softcap;
  int32_t has_dlse;
  int32_t alibi_form;
  int32_t reserved;  ///< 0
} fmhax_problem;

/// Defaults: bf16, batch mode, no mask, every count 0.
fmhax_error_code fmhax_problem_init(fmhax_problem* problem, size_t struct_size);
/// FMHAX_ERROR_INVALID_ARGUMENT and a message with the first field that is wrong. Knows nothing of kernels.
fmhax_error_code fmhax_problem_validate(const fmhax_problem* problem);
/// One line.
fmhax_error_code fmhax_problem_to_string(const fmhax_problem* problem, char* text, size_t capacity, size_t* length);

// Lengths and what is wrong with them ---------------------------------------------------------------------------------

/// int32 arrays, in tokens; device memory in a call's arguments, host memory where a function says so.
typedef struct fmhax_sequence_lengths {
  uint32_t struct_size;
  const int32_t* seqstart_q;   ///< [batch + 1], group mode
  const int32_t* seqstart_k;   ///< [batch + 1], group mode
  const int32_t* seqlen_q;     ///< [batch], FMHAX_LOGICAL_LENGTHS_PER_SEQUENCE
  const int32_t* seqlen_k;     ///< [batch]
  const int32_t* cu_seqlen_q;  ///< [batch + 1], FMHAX_LOGICAL_LENGTHS_CUMULATIVE
  const int32_t* cu_seqlen_k;  ///< [batch + 1]
} fmhax_sequence_lengths;

/// Defaults: all null.
fmhax_error_code fmhax_sequence_lengths_init(fmhax_sequence_lengths* lengths, size_t struct_size);

/// Values of fmhax::StatusCode.
enum {
  FMHAX_STATUS_OK = 0,
  FMHAX_STATUS_FIRST_NOT_ZERO = 1,      ///< seqstart[0] != 0
  FMHAX_STATUS_DECREASING = 2,          ///< a start is smaller than the one before it
  FMHAX_STATUS_EXCEEDS_TOKENS = 3,      ///< a start is beyond the token capacity
  FMHAX_STATUS_EXCEEDS_MAX_SEQLEN = 4,  ///< a sequence is longer than the declared maximum
  FMHAX_STATUS_BAD_LOGICAL_LENGTH = 5,  ///< a logical length is negative or longer than the physical one
  FMHAX_STATUS_WORKSPACE_TOO_SMALL = 6  ///< the metadata ask for more dq_acc than the caller's buffer holds
};
/// Values of fmhax::SequenceSide.
enum { FMHAX_SIDE_Q = 0, FMHAX_SIDE_K = 1 };

/// What a call found wrong with the lengths that it read on the device. The gradients of such a call are NaN.
typedef struct fmhax_call_status {
  uint32_t struct_size;
  int32_t code;
  int32_t side;
  int64_t sequence;  ///< the first sequence that is wrong
  int64_t value;     ///< what was found
  int64_t limit;     ///< what it was compared with
  int64_t checks;    ///< calls or replays checked so far
} fmhax_call_status;

/// E.g. "sequence 3 of q is longer than the declared maximum: 600 > 512"; "ok".
fmhax_error_code fmhax_call_status_to_string(const fmhax_call_status* status, char* text, size_t capacity,
                                             size_t* length);
/// E.g. "exceeds_max_seqlen".
const char* fmhax_status_code_name(int32_t code);

// Workspace -----------------------------------------------------------------------------------------------------------

/// What a provider's kernels need of the workspace; fmhax/contract/workspace.hpp describes the layout.
typedef struct fmhax_workspace_spec {
  uint32_t struct_size;
  int32_t is_group_mode;
  int64_t kN0;      ///< rows of one key tile
  int64_t workers;  ///< persistent kernels: blocks launched
  int64_t acc_element_size;
  int32_t is_deterministic;
  int32_t is_persistent;
  int32_t writes_dq_directly;  ///< no workspace at all
  int32_t needs_zero_dq_acc;
  int32_t has_tile_list;     ///< the metadata hold the order of blocks; without meaning in batch mode
  int32_t can_bound_splits;  ///< the kernels work with any max_splits
  int64_t max_splits;        ///< deterministic, not persistent: the most splits of one sequence; 0: no bound
  int64_t acc_alignment;     ///< of dq_acc within the workspace, in bytes: a multiple of 16; 0: 16
} fmhax_workspace_spec;

/// Defaults: accumulator elements of 4 bytes, aligned to 16, else 0.
fmhax_error_code fmhax_workspace_spec_init(fmhax_workspace_spec* spec, size_t struct_size);
/// Bytes of metadata at the head of the workspace.
fmhax_error_code fmhax_workspace_host_size(const fmhax_workspace_spec* spec, int64_t batch, int64_t* bytes);
/// Bytes of the workspace: exact in batch mode; in group mode enough for every set of lengths within the capacity.
fmhax_error_code fmhax_workspace_size(const fmhax_workspace_spec* spec, const fmhax_problem* problem, int64_t* bytes);
/// Bytes for these sequence starts: int32[batch + 1] in host memory, not read in batch mode.
fmhax_error_code fmhax_workspace_size_of_starts(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                                const int32_t* seqstart_q, const int32_t* seqstart_k, int64_t* bytes);
/// The number of dq_acc splits of one sequence.
fmhax_error_code fmhax_split_count(const fmhax_workspace_spec* spec, const fmhax_problem* problem, int64_t seqlen_k,
                                   int64_t* splits);
/// What the rectangular layout [batch, nhead_q, nsplits, max_seqlen_q, hdim_q] would take, for comparison.
fmhax_error_code fmhax_rectangular_workspace_size(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                                  int64_t* bytes);
/// Writes the metadata for lengths in host memory to `out`, 16-byte aligned host memory of out_bytes bytes.
/// FMHAX_ERROR_WORKSPACE_TOO_SMALL when out_bytes is below fmhax_workspace_host_size(). Bad lengths are no error of the
/// call: `status` says what is wrong, and the metadata then make every kernel write NaN gradients; so too when dq_acc
/// would need more than dq_acc_capacity bytes (-1: no limit). dq_acc_bytes, what the metadata ask for, and status are
/// optional.
fmhax_error_code fmhax_pack_workspace_host(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                           const fmhax_sequence_lengths* host_lengths, int64_t dq_acc_capacity,
                                           void* out, size_t out_bytes, int64_t* dq_acc_bytes,
                                           fmhax_call_status* status);

#ifdef __cplusplus
}
#endif

#endif
