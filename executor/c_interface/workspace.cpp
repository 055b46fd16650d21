// The functions of workspace.h.
#include "fmhax/workspace.h"

#include "boundary.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/status.hpp"
#include "fmhax/workspace.hpp"
#include "plain_data.hpp"

using namespace fmhax::c_interface;

fmhax_error_code fmhax_problem_init(fmhax_problem* problem, size_t struct_size) {
  return guarded([&] { init_struct(problem, "problem", struct_size); });
}

fmhax_error_code fmhax_problem_validate(const fmhax_problem* problem) {
  return guarded([&] { fmhax::validate(problem_from(problem)); });
}

fmhax_error_code fmhax_problem_to_string(const fmhax_problem* problem, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(to_string(problem_from(problem)), text, capacity, length); });
}

fmhax_error_code fmhax_sequence_lengths_init(fmhax_sequence_lengths* lengths, size_t struct_size) {
  return guarded([&] { init_struct(lengths, "lengths", struct_size); });
}

fmhax_error_code fmhax_call_status_to_string(const fmhax_call_status* status, char* text, size_t capacity,
                                             size_t* length) {
  return guarded([&] { write_text(to_string(status_from(status)), text, capacity, length); });
}

const char* fmhax_status_code_name(int32_t code) { return to_string(static_cast<fmhax::StatusCode>(code)); }

fmhax_error_code fmhax_workspace_spec_init(fmhax_workspace_spec* spec, size_t struct_size) {
  return guarded([&] { init_struct(spec, "spec", struct_size); });
}

fmhax_error_code fmhax_workspace_host_size(const fmhax_workspace_spec* spec, int64_t batch, int64_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = fmhax::workspace_host_size(spec_from(spec), batch); });
}

fmhax_error_code fmhax_workspace_size(const fmhax_workspace_spec* spec, const fmhax_problem* problem, int64_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = fmhax::workspace_size(spec_from(spec), problem_from(problem)); });
}

fmhax_error_code fmhax_workspace_size_of_starts(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                                const int32_t* seqstart_q, const int32_t* seqstart_k, int64_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = fmhax::workspace_size(spec_from(spec), problem_from(problem), seqstart_q, seqstart_k);
  });
}

fmhax_error_code fmhax_split_count(const fmhax_workspace_spec* spec, const fmhax_problem* problem, int64_t seqlen_k,
                                   int64_t* splits) {
  return guarded(
      [&] { required(splits, "splits") = fmhax::split_count(spec_from(spec), problem_from(problem), seqlen_k); });
}

fmhax_error_code fmhax_rectangular_workspace_size(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                                  int64_t* bytes) {
  return guarded(
      [&] { required(bytes, "bytes") = fmhax::rectangular_workspace_size(spec_from(spec), problem_from(problem)); });
}

fmhax_error_code fmhax_pack_workspace_host(const fmhax_workspace_spec* spec, const fmhax_problem* problem,
                                           const fmhax_sequence_lengths* host_lengths, int64_t dq_acc_capacity,
                                           void* out, size_t out_bytes, int64_t* dq_acc_bytes,
                                           fmhax_call_status* status) {
  return guarded([&] {
    const fmhax::WorkspaceSpec cpp_spec = spec_from(spec);
    const fmhax::Problem cpp_problem = problem_from(problem);
    const fmhax::SequenceLengths lengths = lengths_from(host_lengths, "host_lengths");
    // Everything is checked before anything is written; asking for the splits checks that spec and problem fit.
    (void)fmhax::split_count(cpp_spec, cpp_problem, 0);
    const auto needed = static_cast<std::size_t>(fmhax::workspace_host_size(cpp_spec, cpp_problem.batch));
    if (needed > 0) required(static_cast<unsigned char*>(out), "out");
    if (out_bytes < needed) {
      throw fmhax::Error(fmhax::ErrorCode::workspace_too_small, "out_bytes is " + std::to_string(out_bytes) + ", " +
                                                                    std::to_string(needed) + " bytes are needed");
    }
    if (status != nullptr) check_struct_size<fmhax_call_status>("status", status->struct_size);
    const fmhax::PackResult result = fmhax::pack_workspace_host(cpp_spec, cpp_problem, lengths, out, dq_acc_capacity);
    if (dq_acc_bytes != nullptr) *dq_acc_bytes = result.dq_acc_bytes;
    if (status != nullptr) write_struct(to_c(result.status), status, "status");
  });
}
