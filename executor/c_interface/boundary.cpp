#include "boundary.hpp"

#include <algorithm>
#include <cstring>

namespace fmhax::c_interface {
namespace {

struct LastError {
  std::string message{};
  int hip_error = 0;
};

LastError& last_error() noexcept {
  thread_local LastError instance;
  return instance;
}

}  // namespace

fmhax_error_code fail(fmhax_error_code code, const char* message, int hip_error) noexcept {
  LastError& last = last_error();
  last.hip_error = hip_error;
  try {
    last.message = message;
  } catch (...) {
    last.message.assign("no memory");  // short enough to need none
  }
  return code;
}

void write_text(const std::string& text, char* target, std::size_t capacity, std::size_t* length) {
  if (capacity > 0) {
    required(target, "text");
    const std::size_t count = std::min(text.size(), capacity - 1);
    std::memcpy(target, text.data(), count);
    target[count] = '\0';
  }
  if (length != nullptr) *length = text.size();
}

static_assert(FMHAX_ERROR_INVALID_ARGUMENT == static_cast<int>(ErrorCode::invalid_argument));
static_assert(FMHAX_ERROR_UNSUPPORTED == static_cast<int>(ErrorCode::unsupported));
static_assert(FMHAX_ERROR_WORKSPACE_TOO_SMALL == static_cast<int>(ErrorCode::workspace_too_small));
static_assert(FMHAX_ERROR_OVERFLOW == static_cast<int>(ErrorCode::overflow));
static_assert(FMHAX_ERROR_OUT_OF_MEMORY == static_cast<int>(ErrorCode::out_of_memory));
static_assert(FMHAX_ERROR_HIP == static_cast<int>(ErrorCode::hip));

}  // namespace fmhax::c_interface

int32_t fmhax_version(void) { return FMHAX_VERSION; }

const char* fmhax_last_error_message(void) { return fmhax::c_interface::last_error().message.c_str(); }

int32_t fmhax_last_hip_error(void) { return fmhax::c_interface::last_error().hip_error; }

const char* fmhax_error_code_name(fmhax_error_code code) {
  if (code == FMHAX_OK) return "ok";
  if (code == FMHAX_ERROR_INTERNAL) return "internal";
  return fmhax::to_string(static_cast<fmhax::ErrorCode>(code));
}
