/// @file The library for C and for bindings: everything of fmhax.hpp but the registration of kernels, which are
/// described by C++ types (KernelEntry: see registry.hpp). A C program needs a C++ linker. The rules for errors,
/// structs, handles and threads are written at the top of workspace.h.
#ifndef FMHAX_FMHAX_H
#define FMHAX_FMHAX_H

#include "fmhax/workspace.h"

#ifdef __cplusplus
extern "C" {
#endif

// HIP's handles -------------------------------------------------------------------------------------------------------

/// The types that HIP's headers call hipStream_t and hipGraph_t. Those headers aren't needed, and not every version of
/// them compiles as C. On NVIDIA GPUs, cast from cudaStream_t and to cudaGraph_t.
typedef struct ihipStream_t* fmhax_stream;
typedef struct ihipGraph* fmhax_hip_graph;

// Tensors and arguments -----------------------------------------------------------------------------------------------

/// A view of a device tensor [batch, seqlen, nhead, hdim], strides in elements, stride_hdim 1. In group mode batch is 1
/// and seqlen counts the packed rows. fmhax::TensorView says more.
typedef struct fmhax_tensor {
  void* data;
  int32_t dtype;
  int64_t batch;
  int64_t seqlen;
  int64_t nhead;
  int64_t hdim;
  int64_t stride_batch;
  int64_t stride_seqlen;
  int64_t stride_nhead;
  int64_t stride_hdim;
} fmhax_tensor;

/// Contiguous [batch, seqlen, nhead, hdim].
fmhax_tensor fmhax_tensor_bshd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim);
/// Contiguous [batch, nhead, seqlen, hdim].
fmhax_tensor fmhax_tensor_bhsd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim);
/// Contiguous [seqlen, batch, nhead, hdim].
fmhax_tensor fmhax_tensor_sbhd(void* data, int32_t dtype, int64_t batch, int64_t seqlen, int64_t nhead, int64_t hdim);
/// Packed [total, nhead, hdim], group mode.
fmhax_tensor fmhax_tensor_thd(void* data, int32_t dtype, int64_t total, int64_t nhead, int64_t hdim);
/// Contiguous fp32 rows [batch, nhead, seqlen]: lse, d.
fmhax_tensor fmhax_tensor_rows_bhs(float* data, int64_t batch, int64_t nhead, int64_t seqlen);
/// Packed fp32 rows [nhead, total]: lse, d in group mode.
fmhax_tensor fmhax_tensor_rows_ht(float* data, int64_t nhead, int64_t total);

/// One fmhax_call_status that enqueued work reports to; fmhax::StatusBuffer says more.
typedef struct fmhax_status_buffer fmhax_status_buffer;

/// Pinned memory for one status; create it outside of the hot path.
fmhax_error_code fmhax_status_buffer_create(fmhax_status_buffer** buffer);
void fmhax_status_buffer_destroy(fmhax_status_buffer* buffer);
/// A snapshot, without waiting; final once the stream has passed the call.
fmhax_error_code fmhax_status_buffer_read(const fmhax_status_buffer* buffer, fmhax_call_status* status);

/// Everything that may differ from call to call. Device pointers must stay valid until the enqueued work (for a graph:
/// its last replay) is over.
typedef struct fmhax_call_arguments {
  uint32_t struct_size;
  float scale;                            ///< softmax scale, usually 1 / sqrt(hdim_q)
  fmhax_tensor q;                         ///< [batch, seqlen_q, nhead_q, hdim_q]
  fmhax_tensor k;                         ///< [batch, seqlen_k, nhead_k, hdim_q]
  fmhax_tensor v;                         ///< [batch, seqlen_k, nhead_k, hdim_v]
  fmhax_tensor o;                         ///< [batch, seqlen_q, nhead_q, hdim_v]
  fmhax_tensor dout;                      ///< as o
  fmhax_tensor lse;                       ///< fp32 [batch, seqlen_q, nhead_q, 1], natural log
  fmhax_tensor d;                         ///< scratch, fp32, as lse; receives rowsum(dout * o)
  fmhax_tensor dq;                        ///< as q; every row is written, rows of no sequence with zero
  fmhax_tensor dk;                        ///< as k
  fmhax_tensor dv;                        ///< as v
  const fmhax_sequence_lengths* lengths;  ///< optional; device pointers
  void* workspace;                        ///< may be null when none is needed or a workspace_alloc is set
  int64_t workspace_bytes;
  fmhax_status_buffer* status;  ///< optional; enqueued work keeps what it refers to

  // Features: what the problem doesn't have must keep its default. fmhax::CallArguments says more.
  fmhax_tensor bias;           ///< [batch or 1, seqlen_q, nhead_q or 1, seqlen_k], the problem's type; hdim is the key
  fmhax_tensor dbias;          ///< of that form, with broadcast axes of its own
  fmhax_tensor random_values;  ///< uint8, of that form without broadcast axes
  fmhax_tensor dlse;           ///< fp32, as lse
  const float* alibi_slopes;   ///< [nhead_q], or [batch, nhead_q] when alibi_stride_batch is not 0
  int64_t alibi_stride_batch;
  const float* sink;  ///< [nhead_q]
  float* dsink;       ///< [nhead_q]
  float softcap;      ///< positive
  float dropout_probability;
  uint64_t dropout_seed;
  uint64_t dropout_offset;
  const uint64_t* dropout_seed_pointer;    ///< device memory, read when the kernels run; null: dropout_seed
  const uint64_t* dropout_offset_pointer;  ///< device memory, read when the kernels run; null: dropout_offset
} fmhax_call_arguments;

/// Defaults: scale 1, no tensors.
fmhax_error_code fmhax_call_arguments_init(fmhax_call_arguments* arguments, size_t struct_size);

// Kernels -------------------------------------------------------------------------------------------------------------

/// The number of registered kernel entries, the library's own first. It only grows.
fmhax_error_code fmhax_registered_kernel_count(size_t* count);
/// The name of entry `index`; valid until the process ends.
fmhax_error_code fmhax_registered_kernel_name(size_t index, const char** name);

// Executor ------------------------------------------------------------------------------------------------------------

/// A planned problem on one device: kernels chosen, sizes known, immutable.
typedef struct fmhax_executor fmhax_executor;

/// Values of fmhax::Keepalive and fmhax::MetadataPath, which say more.
enum { FMHAX_KEEPALIVE_EVENT = 0, FMHAX_KEEPALIVE_HOST_FUNCTION = 1 };
enum { FMHAX_METADATA_PATH_HOST = 0, FMHAX_METADATA_PATH_DEVICE = 1 };

/// Callbacks run on the thread that called the library, never on one of the runtime's. They must not call the library
/// with the executor or graph that called them.
typedef struct fmhax_executor_options {
  uint32_t struct_size;
  int32_t keepalive;
  int32_t metadata_path;
  const char* kernel;  ///< use this registered entry and no other; null or empty: the best one
  /// Optional. Called once for each eager call whose arguments bring no workspace, and once for each graph or captured
  /// call. Returns `bytes` of device memory, 16-byte aligned, or null, which fails the call. The memory stays the
  /// caller's and must stay valid until the enqueued work (for a graph: its last replay) is over. With zero_init it
  /// must read as zero from this point of the stream on.
  void* (*workspace_alloc)(void* user, size_t bytes, int32_t zero_init);
  /// Optional. Returns `bytes` of pinned host memory, 16-byte aligned, or null, which fails the call.
  void* (*pinned_alloc)(void* user, size_t bytes);
  /// Optional, only with pinned_alloc. Gives its memory back, after the stream has passed the call or the last graph
  /// that reads it is gone: by a later call on the device or when the executor is destroyed.
  void (*pinned_free)(void* user, void* memory);
  void* user;  ///< first argument of every callback
  /// Optional. Called once, when no callback can be called any more: executor and graphs are destroyed, pinned memory
  /// is given back. Not called when fmhax_executor_create fails.
  void (*release_user)(void* user);
  /// A ceiling for the workspace's size, 0: none. Deterministic kernels then sum several key tiles in each split.
  int64_t max_workspace_bytes;
} fmhax_executor_options;

/// Defaults: event, host, the best kernel, no callbacks, no ceiling.
fmhax_error_code fmhax_executor_options_init(fmhax_executor_options* options, size_t struct_size);

/// Plans for the current device. `options` is optional.
fmhax_error_code fmhax_executor_create(const fmhax_problem* problem, const fmhax_executor_options* options,
                                       fmhax_executor** executor);
/// Frees what destroyed graphs, and calls that HIP failed half-way, left on the current device. May wait for the
/// device, so not while one of its streams is capturing.
fmhax_error_code fmhax_release_unused_memory(void);
/// Work in flight goes on; graphs made with the executor stay usable.
void fmhax_executor_destroy(fmhax_executor* executor);

fmhax_error_code fmhax_executor_problem(const fmhax_executor* executor, fmhax_problem* problem);
fmhax_error_code fmhax_executor_workspace_spec(const fmhax_executor* executor, fmhax_workspace_spec* spec);
/// Name of the chosen kernel entry; valid until the process ends.
fmhax_error_code fmhax_executor_kernel_name(const fmhax_executor* executor, const char** name);

/// The device that the plan was made for.
typedef struct fmhax_device_traits {
  uint32_t struct_size;
  int32_t device;
  int32_t multiprocessors;  ///< on the host platform: threads of the block pool
  int64_t shared_memory_per_block;
  char arch[64];  ///< gcnArchName on AMD, "sm_90" on NVIDIA, "host" on the host platform
} fmhax_device_traits;
fmhax_error_code fmhax_executor_device(const fmhax_executor* executor, fmhax_device_traits* traits);

/// One kernel entry's verdict on the executor's problem.
typedef struct fmhax_candidate {
  uint32_t struct_size;
  int32_t is_chosen;
  const char* name;                ///< valid until the process ends
  const char* unsupported_reason;  ///< null when it can run; valid until the executor is destroyed
  int64_t rank;                    ///< the highest of those that can run is chosen
} fmhax_candidate;
fmhax_error_code fmhax_executor_candidate_count(const fmhax_executor* executor, size_t* count);
fmhax_error_code fmhax_executor_candidate(const fmhax_executor* executor, size_t index, fmhax_candidate* candidate);

/// Bytes that suffice for every call within the capacity (exact in batch mode).
fmhax_error_code fmhax_executor_workspace_size(const fmhax_executor* executor, int64_t* bytes);
/// Bytes for these sequence starts, int32[batch + 1] in host memory.
fmhax_error_code fmhax_executor_workspace_size_of_starts(const fmhax_executor* executor, const int32_t* seqstart_q,
                                                         const int32_t* seqstart_k, int64_t* bytes);

/// The whole backward pass on `stream`: eager, or recorded when the stream is capturing. Never waits for the device. A
/// call that is refused (any error but FMHAX_ERROR_HIP and FMHAX_ERROR_OUT_OF_MEMORY) has enqueued nothing.
fmhax_error_code fmhax_executor_enqueue(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                        fmhax_stream stream);
/// The metadata alone, from lengths in device memory.
fmhax_error_code fmhax_executor_prepare_workspace_async(const fmhax_executor* executor,
                                                        const fmhax_call_arguments* arguments, fmhax_stream stream);
/// The metadata alone, from lengths in host memory, which are read, checked and packed before the call returns.
/// Needs only fmhax_executor_workspace_size_of_starts() bytes. Not while capturing.
fmhax_error_code fmhax_executor_prepare_workspace(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                  const fmhax_sequence_lengths* host_lengths, fmhax_stream stream);
/// The zeroing and the kernels, over a workspace prepared earlier on this stream's time line, any number of times.
fmhax_error_code fmhax_executor_enqueue_kernels(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                fmhax_stream stream);
/// o and lse from q, k, v, for samples and tests. Rows that see no key get o = 0, lse = -inf.
fmhax_error_code fmhax_executor_enqueue_forward(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                fmhax_stream stream);

/// The nodes of one call as text, one a line, or as a Graphviz digraph.
fmhax_error_code fmhax_executor_describe(const fmhax_executor* executor, char* text, size_t capacity, size_t* length);
fmhax_error_code fmhax_executor_dot(const fmhax_executor* executor, char* text, size_t capacity, size_t* length);

// Graph ---------------------------------------------------------------------------------------------------------------

/// One call as an executable graph, launched any number of times with whatever the buffers hold then. fmhax::Graph says
/// more.
typedef struct fmhax_graph fmhax_graph;

fmhax_error_code fmhax_graph_create(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                    fmhax_graph** graph);
/// Safe while a launch is in flight.
void fmhax_graph_destroy(fmhax_graph* graph);
/// Other arguments for the launches that follow. Waits for nothing.
fmhax_error_code fmhax_graph_update(fmhax_graph* graph, const fmhax_call_arguments* arguments);
/// Enqueues one replay on any stream of the executor's device that is not capturing.
fmhax_error_code fmhax_graph_launch(fmhax_graph* graph, fmhax_stream stream);
/// What the latest replay that got so far found wrong with its lengths. Final after synchronising.
fmhax_error_code fmhax_graph_status(const fmhax_graph* graph, fmhax_call_status* status);

typedef struct fmhax_graph_counters {
  uint32_t struct_size;
  int64_t launches;
  int64_t updates;   ///< in place
  int64_t rebuilds;  ///< of the executable, by updates
} fmhax_graph_counters;
fmhax_error_code fmhax_graph_get_counters(const fmhax_graph* graph, fmhax_graph_counters* counters);
/// The graph itself, e.g. to add as a child node. The handle owns it and must outlive every graph that embeds it.
fmhax_error_code fmhax_graph_native(const fmhax_graph* graph, fmhax_hip_graph* native);
fmhax_error_code fmhax_graph_dot(const fmhax_graph* graph, char* text, size_t capacity, size_t* length);

// Graph cache ---------------------------------------------------------------------------------------------------------

/// A bounded set of graphs, found by plan and arguments. fmhax::GraphCache says more.
typedef struct fmhax_graph_cache fmhax_graph_cache;

/// Holds at most `capacity` graphs, at least 1.
fmhax_error_code fmhax_graph_cache_create(size_t capacity, fmhax_graph_cache** cache);
void fmhax_graph_cache_destroy(fmhax_graph_cache* cache);
/// fmhax_executor_enqueue by way of a graph that is kept for equal arguments; `stream` must not be capturing.
fmhax_error_code fmhax_graph_cache_launch(fmhax_graph_cache* cache, const fmhax_executor* executor,
                                          const fmhax_call_arguments* arguments, fmhax_stream stream);

typedef struct fmhax_graph_cache_counters {
  uint32_t struct_size;
  int64_t hits;       ///< a graph with equal arguments was there
  int64_t misses;     ///< it was not: a graph was made or retargeted
  int64_t updates;    ///< misses that changed an old graph in place
  int64_t rebuilds;   ///< misses that retargeted an old graph by building its executable anew
  int64_t evictions;  ///< graphs dropped for want of room
} fmhax_graph_cache_counters;
fmhax_error_code fmhax_graph_cache_get_counters(const fmhax_graph_cache* cache, fmhax_graph_cache_counters* counters);
/// Graphs held now, and at most.
fmhax_error_code fmhax_graph_cache_size(const fmhax_graph_cache* cache, size_t* size);
fmhax_error_code fmhax_graph_cache_capacity(const fmhax_graph_cache* cache, size_t* capacity);
/// Drops every graph; the counters stay.
fmhax_error_code fmhax_graph_cache_clear(fmhax_graph_cache* cache);

#ifdef __cplusplus
}
#endif

#endif
