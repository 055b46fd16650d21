#include "fmhax/error.hpp"

namespace fmhax {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::workspace_too_small:
      return "workspace_too_small";
    case ErrorCode::overflow:
      return "overflow";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::hip:
      return "hip";
  }
  return "unknown_error_code";
}

}  // namespace fmhax
