// Where the fields of version 0.1 lie on 64-bit machines: an old program relies on it. Fields are only ever added
// behind the last ones here; fmhax_mask and fmhax_tensor, parts of other structs, don't grow at all.
#include <stddef.h>

#include "fmhax/fmhax.h"

#define FROZEN(type, field, offset) \
  _Static_assert(sizeof(void*) != 8 || offsetof(type, field) == (offset), #type "." #field " has moved")

FROZEN(fmhax_mask, window_right, 16);
FROZEN(fmhax_tensor, dtype, 8);
FROZEN(fmhax_tensor, stride_hdim, 72);
_Static_assert(sizeof(void*) != 8 || (sizeof(fmhax_mask) == 24 && sizeof(fmhax_tensor) == 80), "a part has grown");
FROZEN(fmhax_problem, batch, 16);
FROZEN(fmhax_problem, mask, 88);
FROZEN(fmhax_problem, has_dlse, 140);
FROZEN(fmhax_problem, alibi_form, 144);
FROZEN(fmhax_sequence_lengths, seqstart_q, 8);
FROZEN(fmhax_sequence_lengths, cu_seqlen_k, 48);
FROZEN(fmhax_call_arguments, q, 8);
FROZEN(fmhax_call_arguments, dv, 728);
FROZEN(fmhax_call_arguments, lengths, 808);
FROZEN(fmhax_call_arguments, status, 832);
FROZEN(fmhax_call_arguments, bias, 840);
FROZEN(fmhax_call_arguments, dropout_offset_pointer, 1224);
FROZEN(fmhax_call_status, sequence, 16);
FROZEN(fmhax_call_status, checks, 40);
FROZEN(fmhax_workspace_spec, kN0, 8);
FROZEN(fmhax_workspace_spec, needs_zero_dq_acc, 44);
FROZEN(fmhax_workspace_spec, max_splits, 56);
FROZEN(fmhax_workspace_spec, acc_alignment, 64);
FROZEN(fmhax_executor_options, kernel, 16);
FROZEN(fmhax_executor_options, release_user, 56);
FROZEN(fmhax_executor_options, max_workspace_bytes, 64);
FROZEN(fmhax_device_traits, arch, 24);
FROZEN(fmhax_candidate, name, 8);
FROZEN(fmhax_candidate, rank, 24);
FROZEN(fmhax_graph_counters, rebuilds, 24);
FROZEN(fmhax_graph_cache_counters, evictions, 40);
