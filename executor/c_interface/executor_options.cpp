#include "executor_options.hpp"

#include <utility>

namespace fmhax::c_interface {
namespace {

static_assert(FMHAX_KEEPALIVE_EVENT == static_cast<int>(Keepalive::event));
static_assert(FMHAX_KEEPALIVE_HOST_FUNCTION == static_cast<int>(Keepalive::host_function));
static_assert(FMHAX_METADATA_PATH_HOST == static_cast<int>(MetadataPath::host));
static_assert(FMHAX_METADATA_PATH_DEVICE == static_cast<int>(MetadataPath::device));
static_assert(sizeof(fmhax_executor_options) ==
              offsetof(fmhax_executor_options, max_workspace_bytes) + sizeof(std::int64_t));

/// An enumerator of two.
template <class Enum>
Enum checked_enum(const char* field, std::int32_t value, Enum last, const char* names) {
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    throw Error(ErrorCode::invalid_argument, std::string(field) + " is " + std::to_string(value) +
                                                 ", but must be in 0.." +
                                                 std::to_string(static_cast<std::int32_t>(last)) + " (" + names + ")");
  }
  return static_cast<Enum>(value);
}

}  // namespace

template <>
fmhax_executor_options defaults<fmhax_executor_options>() {
  const ExecutorOptions cpp;
  fmhax_executor_options c{};
  c.keepalive = static_cast<std::int32_t>(cpp.keepalive);
  c.metadata_path = static_cast<std::int32_t>(cpp.metadata_path);
  return c;
}

Callbacks::~Callbacks() {
  if (!owns_user_ || options_.release_user == nullptr) return;
  try {
    options_.release_user(options_.user);
  } catch (...) {
    // Nobody is left to whom it could be told.
  }
}

void* Callbacks::alloc_workspace(std::size_t bytes, bool zero_init) const {
  return options_.workspace_alloc(options_.user, bytes, zero_init ? 1 : 0);
}

std::shared_ptr<void> Callbacks::alloc_pinned(std::shared_ptr<const Callbacks> self, std::size_t bytes) {
  void* memory = self->options_.pinned_alloc(self->options_.user, bytes);
  if (memory == nullptr) return {};
  return {memory, [self = std::move(self)](void* pointer) { self->free_pinned(pointer); }};
}

void Callbacks::free_pinned(void* memory) const noexcept {
  if (options_.pinned_free == nullptr) return;
  try {
    options_.pinned_free(options_.user, memory);
  } catch (...) {
    // A release has no caller who could be told.
  }
}

ConvertedOptions options_from(const fmhax_executor_options* given) {
  const fmhax_executor_options c =
      given != nullptr ? read_struct(given, "options") : defaults<fmhax_executor_options>();
  if (c.pinned_free != nullptr && c.pinned_alloc == nullptr) {
    throw Error(ErrorCode::invalid_argument, "options.pinned_free is set, but options.pinned_alloc is null");
  }
  ConvertedOptions converted{{}, std::make_shared<Callbacks>(c)};
  ExecutorOptions& options = converted.options;
  options.keepalive = checked_enum("options.keepalive", c.keepalive, Keepalive::host_function, "event, host_function");
  options.metadata_path = checked_enum("options.metadata_path", c.metadata_path, MetadataPath::device, "host, device");
  if (c.kernel != nullptr) options.kernel = c.kernel;
  options.max_workspace_bytes = c.max_workspace_bytes;
  const std::shared_ptr<const Callbacks> callbacks = converted.callbacks;
  if (c.workspace_alloc != nullptr) {
    options.workspace_alloc = [callbacks](std::size_t bytes, bool zero_init) {
      return callbacks->alloc_workspace(bytes, zero_init);
    };
  }
  if (c.pinned_alloc != nullptr) {
    options.pinned_host_alloc = [callbacks](std::size_t bytes) { return Callbacks::alloc_pinned(callbacks, bytes); };
  }
  return converted;
}

}  // namespace fmhax::c_interface

fmhax_error_code fmhax_executor_options_init(fmhax_executor_options* options, size_t struct_size) {
  using namespace fmhax::c_interface;
  return guarded([&] { init_struct(options, "options", struct_size); });
}
