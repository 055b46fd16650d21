// Executors and the kernels that they choose from.
#include "fmhax/executor.hpp"

#include <cstring>
#include <utility>

#include "fmhax/registry.hpp"
#include "handles.hpp"

namespace fmhax::c_interface {
namespace {

static_assert(sizeof(fmhax_device_traits) == offsetof(fmhax_device_traits, arch) + sizeof(fmhax_device_traits::arch));
static_assert(sizeof(fmhax_device_traits::arch) == sizeof(DeviceTraits::arch));
static_assert(sizeof(fmhax_candidate) == offsetof(fmhax_candidate, rank) + sizeof(std::int64_t));

const Executor& executor_of(const fmhax_executor* handle) { return required(handle, "executor").executor; }

/// The entry at `index` of what a function counts.
template <class Container>
const auto& element(const Container& container, std::size_t index) {
  if (index < container.size()) return container[index];
  throw Error(ErrorCode::invalid_argument,
              "index is " + std::to_string(index) + ", but must be below " + std::to_string(container.size()));
}

fmhax_device_traits to_c(const DeviceTraits& traits) {
  fmhax_device_traits c{};
  c.device = traits.device;
  c.multiprocessors = traits.multiprocessors;
  c.shared_memory_per_block = traits.shared_memory_per_block;
  std::memcpy(c.arch, traits.arch, sizeof(c.arch));
  return c;
}

}  // namespace
}  // namespace fmhax::c_interface

using namespace fmhax::c_interface;

fmhax_error_code fmhax_registered_kernel_count(size_t* count) {
  return guarded([&] { required(count, "count") = fmhax::registered_kernels().size(); });
}

fmhax_error_code fmhax_registered_kernel_name(size_t index, const char** name) {
  return guarded([&] { required(name, "name") = element(fmhax::registered_kernels(), index).name; });
}

fmhax_error_code fmhax_executor_create(const fmhax_problem* problem, const fmhax_executor_options* options,
                                       fmhax_executor** executor) {
  return create_handle(executor, "executor", [&] {
    ConvertedOptions converted = options_from(options);
    auto* handle =
        new fmhax_executor{converted.callbacks, fmhax::Executor(problem_from(problem), std::move(converted.options))};
    converted.callbacks->own_user();
    return handle;
  });
}

void fmhax_executor_destroy(fmhax_executor* executor) { delete executor; }

fmhax_error_code fmhax_release_unused_memory(void) {
  return guarded([] { fmhax::release_unused_memory(); });
}

fmhax_error_code fmhax_executor_problem(const fmhax_executor* executor, fmhax_problem* problem) {
  return guarded([&] { write_struct(to_c(executor_of(executor).problem()), problem, "problem"); });
}

fmhax_error_code fmhax_executor_workspace_spec(const fmhax_executor* executor, fmhax_workspace_spec* spec) {
  return guarded([&] { write_struct(to_c(executor_of(executor).workspace_spec()), spec, "spec"); });
}

fmhax_error_code fmhax_executor_kernel_name(const fmhax_executor* executor, const char** name) {
  return guarded([&] { required(name, "name") = executor_of(executor).kernel_choice().entry().name; });
}

fmhax_error_code fmhax_executor_device(const fmhax_executor* executor, fmhax_device_traits* traits) {
  return guarded([&] { write_struct(to_c(executor_of(executor).device()), traits, "traits"); });
}

fmhax_error_code fmhax_executor_candidate_count(const fmhax_executor* executor, size_t* count) {
  return guarded([&] { required(count, "count") = executor_of(executor).kernel_choice().candidates.size(); });
}

fmhax_error_code fmhax_executor_candidate(const fmhax_executor* executor, size_t index, fmhax_candidate* candidate) {
  return guarded([&] {
    const fmhax::KernelChoice& choice = executor_of(executor).kernel_choice();
    const fmhax::Candidate& from = element(choice.candidates, index);
    fmhax_candidate c{};
    c.is_chosen = index == choice.chosen;
    c.name = from.entry.name;
    c.unsupported_reason = from.unsupported_reason.empty() ? nullptr : from.unsupported_reason.c_str();
    c.rank = from.rank;
    write_struct(c, candidate, "candidate");
  });
}

fmhax_error_code fmhax_executor_workspace_size(const fmhax_executor* executor, int64_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = executor_of(executor).workspace_size(); });
}

fmhax_error_code fmhax_executor_workspace_size_of_starts(const fmhax_executor* executor, const int32_t* seqstart_q,
                                                         const int32_t* seqstart_k, int64_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = executor_of(executor).workspace_size(seqstart_q, seqstart_k); });
}

fmhax_error_code fmhax_executor_enqueue(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                        fmhax_stream stream) {
  return guarded([&] { executor_of(executor).enqueue(arguments_from(arguments), to_hip(stream)); });
}

fmhax_error_code fmhax_executor_prepare_workspace_async(const fmhax_executor* executor,
                                                        const fmhax_call_arguments* arguments, fmhax_stream stream) {
  return guarded([&] { executor_of(executor).prepare_workspace_async(arguments_from(arguments), to_hip(stream)); });
}

fmhax_error_code fmhax_executor_prepare_workspace(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                  const fmhax_sequence_lengths* host_lengths, fmhax_stream stream) {
  return guarded([&] {
    executor_of(executor).prepare_workspace(arguments_from(arguments), lengths_from(host_lengths, "host_lengths"),
                                            to_hip(stream));
  });
}

fmhax_error_code fmhax_executor_enqueue_kernels(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                fmhax_stream stream) {
  return guarded([&] { executor_of(executor).enqueue_kernels(arguments_from(arguments), to_hip(stream)); });
}

fmhax_error_code fmhax_executor_enqueue_forward(const fmhax_executor* executor, const fmhax_call_arguments* arguments,
                                                fmhax_stream stream) {
  return guarded([&] { executor_of(executor).enqueue_forward(arguments_from(arguments), to_hip(stream)); });
}

fmhax_error_code fmhax_executor_describe(const fmhax_executor* executor, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(executor_of(executor).describe_nodes(), text, capacity, length); });
}

fmhax_error_code fmhax_executor_dot(const fmhax_executor* executor, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(executor_of(executor).dot(), text, capacity, length); });
}
