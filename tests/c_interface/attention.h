/// @file One small packed attention problem for the C interface: device buffers, call arguments, and the gradients in
/// fp64 to compare with.
#ifndef FMHAX_TESTS_C_INTERFACE_ATTENTION_H
#define FMHAX_TESTS_C_INTERFACE_ATTENTION_H

#include <hip/hip_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

#include "fmhax/fmhax.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SEQUENCES = 3,
  TOKENS = 320,
  HEADS_Q = 4,
  HEADS_K = 2,
  HDIM_Q = 16,
  HDIM_V = 24,
  STARTS = SEQUENCES + 1,
  MAX_BUFFERS = 16
};

/// Host and device both see the buffers.
typedef struct attention {
  fmhax_problem problem;
  fmhax_sequence_lengths lengths;
  fmhax_call_arguments arguments;  ///< workspace and status are not set
  int32_t* seqstart;               ///< [STARTS], for q and k
  void* buffers[MAX_BUFFERS];
  int buffer_count;
} attention;

/// fp32, group mode, deterministic, causal, GQA; inputs between -1 and 1. Ends the program when there is no memory.
void attention_create(attention* a);
void attention_destroy(attention* a);
/// Whether a kernel runs it on the current device: those of GPUs have no fp32.
int attention_is_supported(const attention* a);

/// Managed memory that attention_destroy frees.
void* attention_allocate(attention* a, size_t bytes);
void attention_set_starts(attention* a, const int32_t starts[STARTS]);
/// Overwrites dq, dk and dv, so that a call that does nothing is noticed.
void attention_spoil_gradients(attention* a);

/// Waits for the device. The largest relative Frobenius error of dq, dk, dv against fp64, or a huge number when a row
/// of no sequence isn't zero or a value isn't finite.
double attention_error(const attention* a);
/// Waits for the device. Whether all gradients are NaN.
int attention_gradients_are_nan(const attention* a);

#ifdef __cplusplus
}
#endif

#endif
