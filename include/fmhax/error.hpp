/// @file The one exception of the library.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fmhax {

enum class ErrorCode : std::int32_t {
  invalid_argument = 1,  ///< a field has a value that is never allowed, or two fields disagree
  unsupported = 2,       ///< a valid problem that no registered kernel can run
  workspace_too_small = 3,
  overflow = 4,       ///< a size does not fit 64 bits
  out_of_memory = 5,  ///< an allocator, the caller's or the runtime's, gave nothing
  hip = 6             ///< a HIP call failed; hip_error() says how
};

/// Name of a code, e.g. "invalid_argument".
const char* to_string(ErrorCode code) noexcept;

/// Thrown by every call that is refused. A refused call has enqueued nothing. The message names the
/// field, what was given and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int hip_error = 0)
      : std::runtime_error(message), code_(code), hip_error_(hip_error) {}

  ErrorCode code() const noexcept { return code_; }
  /// The hipError_t of a failed HIP call, else 0 (hipSuccess).
  int hip_error() const noexcept { return hip_error_; }

 private:
  ErrorCode code_;
  int hip_error_;
};

}  // namespace fmhax
