#include "attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double kWrong = 1e30;

static float next_value(uint32_t* state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 8) / 8388608.0F - 1.0F;
}

void* attention_allocate(attention* a, size_t bytes) {
  void* memory = NULL;
  if (a->buffer_count == MAX_BUFFERS || hipMallocManaged(&memory, bytes, hipMemAttachGlobal) != hipSuccess) {
    fprintf(stderr, "no memory for a test\n");
    exit(2);
  }
  a->buffers[a->buffer_count++] = memory;
  return memory;
}

static float* random_buffer(attention* a, size_t count, uint32_t* state) {
  float* data = (float*)attention_allocate(a, count * sizeof(float));
  for (size_t i = 0; i < count; ++i) data[i] = next_value(state);
  return data;
}

static fmhax_tensor packed(attention* a, int64_t heads, int64_t hdim, uint32_t* state) {
  return fmhax_tensor_thd(random_buffer(a, (size_t)(TOKENS * heads * hdim), state), FMHAX_DATA_TYPE_FP32, TOKENS, heads,
                          hdim);
}

void attention_create(attention* a) {
  uint32_t state = 1;
  memset(a, 0, sizeof *a);
  if (fmhax_problem_init(&a->problem, sizeof a->problem) != FMHAX_OK ||
      fmhax_sequence_lengths_init(&a->lengths, sizeof a->lengths) != FMHAX_OK ||
      fmhax_call_arguments_init(&a->arguments, sizeof a->arguments) != FMHAX_OK) {
    fprintf(stderr, "init: %s\n", fmhax_last_error_message());
    exit(2);
  }
  fmhax_problem* p = &a->problem;
  p->dtype = FMHAX_DATA_TYPE_FP32;
  p->is_group_mode = p->is_deterministic = 1;
  p->batch = SEQUENCES;
  p->nhead_q = HEADS_Q;
  p->nhead_k = HEADS_K;
  p->hdim_q = HDIM_Q;
  p->hdim_v = HDIM_V;
  p->max_seqlen_q = p->max_seqlen_k = p->total_q = p->total_k = TOKENS;
  p->mask.window_right = 0;

  fmhax_call_arguments* c = &a->arguments;
  c->scale = 0.25F;
  c->q = packed(a, HEADS_Q, HDIM_Q, &state);
  c->k = packed(a, HEADS_K, HDIM_Q, &state);
  c->v = packed(a, HEADS_K, HDIM_V, &state);
  c->o = packed(a, HEADS_Q, HDIM_V, &state);
  c->dout = packed(a, HEADS_Q, HDIM_V, &state);
  c->dq = packed(a, HEADS_Q, HDIM_Q, &state);
  c->dk = packed(a, HEADS_K, HDIM_Q, &state);
  c->dv = packed(a, HEADS_K, HDIM_V, &state);
  c->lse = fmhax_tensor_rows_ht(random_buffer(a, HEADS_Q * TOKENS, &state), HEADS_Q, TOKENS);
  c->d = fmhax_tensor_rows_ht(random_buffer(a, HEADS_Q * TOKENS, &state), HEADS_Q, TOKENS);
  a->seqstart = (int32_t*)attention_allocate(a, STARTS * sizeof(int32_t));
  a->lengths.seqstart_q = a->lengths.seqstart_k = a->seqstart;
  c->lengths = &a->lengths;
}

void attention_destroy(attention* a) {
  while (a->buffer_count > 0) (void)hipFree(a->buffers[--a->buffer_count]);
}

int attention_is_supported(const attention* a) {
  fmhax_executor* executor = NULL;
  const int is_supported = fmhax_executor_create(&a->problem, NULL, &executor) == FMHAX_OK;
  fmhax_executor_destroy(executor);
  return is_supported;
}

void attention_set_starts(attention* a, const int32_t starts[STARTS]) {
  memcpy(a->seqstart, starts, STARTS * sizeof(int32_t));
}

static size_t element_count(const fmhax_tensor* t) { return (size_t)(t->seqlen * t->stride_seqlen); }

void attention_spoil_gradients(attention* a) {
  fmhax_tensor* const gradients[] = {&a->arguments.dq, &a->arguments.dk, &a->arguments.dv};
  for (int i = 0; i < 3; ++i) {
    for (size_t j = 0; j < element_count(gradients[i]); ++j) ((float*)gradients[i]->data)[j] = 7.0F;
  }
}

int attention_gradients_are_nan(const attention* a) {
  const fmhax_tensor* const gradients[] = {&a->arguments.dq, &a->arguments.dk, &a->arguments.dv};
  if (hipDeviceSynchronize() != hipSuccess) return 0;
  for (int i = 0; i < 3; ++i) {
    for (size_t j = 0; j < element_count(gradients[i]); ++j) {
      if (!isnan(((const float*)gradients[i]->data)[j])) return 0;
    }
  }
  return 1;
}

// The reference: S = scale * Q K^T, causal; P = softmax(S); dV = P^T dO; dS = P * (dO V^T - rowsum(dO * O)).

static const float* row(const fmhax_tensor* t, int64_t token, int64_t head) {
  return (const float*)t->data + token * t->stride_seqlen + head * t->stride_nhead;
}

static double dot(const float* x, const float* y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += (double)x[i] * (double)y[i];
  return sum;
}

typedef struct gradients {
  double dq[TOKENS * HEADS_Q * HDIM_Q];
  double dk[TOKENS * HEADS_K * HDIM_Q];
  double dv[TOKENS * HEADS_K * HDIM_V];
} gradients;

/// One query row of the sequence that starts at `begin`.
static void add_row(const fmhax_call_arguments* c, int64_t begin, int64_t token, int64_t head, gradients* g) {
  const int64_t key_head = head / (HEADS_Q / HEADS_K);
  const float* q = row(&c->q, token, head);
  const float* dout = row(&c->dout, token, head);
  double p[TOKENS], dp[TOKENS], sum = 0, d = 0;
  for (int64_t key = begin; key <= token; ++key) {
    p[key] = exp((double)c->scale * dot(q, row(&c->k, key, key_head), HDIM_Q));
    dp[key] = dot(dout, row(&c->v, key, key_head), HDIM_V);
    sum += p[key];
  }
  for (int64_t key = begin; key <= token; ++key) {
    p[key] /= sum;
    d += p[key] * dp[key];  // rowsum(dO * O), since O = P V
  }
  for (int64_t key = begin; key <= token; ++key) {
    const float* k = row(&c->k, key, key_head);
    const double ds = (double)c->scale * p[key] * (dp[key] - d);
    for (int64_t i = 0; i < HDIM_Q; ++i) {
      g->dq[(token * HEADS_Q + head) * HDIM_Q + i] += ds * (double)k[i];
      g->dk[(key * HEADS_K + key_head) * HDIM_Q + i] += ds * (double)q[i];
    }
    for (int64_t i = 0; i < HDIM_V; ++i) g->dv[(key * HEADS_K + key_head) * HDIM_V + i] += p[key] * (double)dout[i];
  }
}

static double relative_error(const fmhax_tensor* t, const double* reference, int64_t used_tokens) {
  const float* data = (const float*)t->data;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < element_count(t); ++i) {
    if (!isfinite(data[i])) return kWrong;
    if (i >= (size_t)(used_tokens * t->stride_seqlen) && data[i] != 0.0F) return kWrong;
    difference += pow((double)data[i] - reference[i], 2);
    norm += pow(reference[i], 2);
  }
  return sqrt(difference / norm);
}

double attention_error(const attention* a) {
  if (hipDeviceSynchronize() != hipSuccess) return kWrong;
  const fmhax_call_arguments* c = &a->arguments;
  gradients* g = (gradients*)calloc(1, sizeof *g);
  if (g == NULL) return kWrong;
  for (int i = 0; i < SEQUENCES; ++i) {
    for (int64_t token = a->seqstart[i]; token < a->seqstart[i + 1]; ++token) {
      for (int64_t head = 0; head < HEADS_Q; ++head) add_row(c, a->seqstart[i], token, head, g);
    }
  }
  const int64_t used = a->seqstart[SEQUENCES];
  const double errors[] = {relative_error(&c->dq, g->dq, used), relative_error(&c->dk, g->dk, used),
                           relative_error(&c->dv, g->dv, used)};
  free(g);
  return fmax(errors[0], fmax(errors[1], errors[2]));
}
