/// @file The C structs of workspace.h and their C++ counterparts.
#pragma once

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/problem.hpp"
#include "fmhax/contract/workspace.hpp"
#include "sized_struct.hpp"

namespace fmhax::c_interface {

template <>
fmhax_problem defaults<fmhax_problem>();
template <>
fmhax_sequence_lengths defaults<fmhax_sequence_lengths>();
template <>
fmhax_call_status defaults<fmhax_call_status>();
template <>
fmhax_workspace_spec defaults<fmhax_workspace_spec>();

/// From the caller: checked for null and size, fields as they are.
Problem problem_from(const fmhax_problem* given);
SequenceLengths lengths_from(const fmhax_sequence_lengths* given, const char* name);
CallStatus status_from(const fmhax_call_status* given);
WorkspaceSpec spec_from(const fmhax_workspace_spec* given);

/// To the caller; struct_size is 0.
fmhax_problem to_c(const Problem& problem);
fmhax_call_status to_c(const CallStatus& status);
fmhax_workspace_spec to_c(const WorkspaceSpec& spec);

}  // namespace fmhax::c_interface
