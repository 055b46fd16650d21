#include <fmt/format.h>

#include "fmhax/status.hpp"

namespace fmhax {

const char* to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::first_not_zero:
      return "first_not_zero";
    case StatusCode::decreasing:
      return "decreasing";
    case StatusCode::exceeds_tokens:
      return "exceeds_tokens";
    case StatusCode::exceeds_max_seqlen:
      return "exceeds_max_seqlen";
    case StatusCode::bad_logical_length:
      return "bad_logical_length";
    case StatusCode::workspace_too_small:
      return "workspace_too_small";
  }
  return "unknown_status_code";
}

std::string to_string(const CallStatus& status) {
  const char* side = status.side == SequenceSide::q ? "q" : "k";
  switch (status.code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::first_not_zero:
      return fmt::format("seqstart_{}[0] is {}, but must be 0", side, status.value);
    case StatusCode::decreasing:
      return fmt::format("sequence {} of {} ends before it starts: seqstart_{}[{}] = {} < {}", status.sequence, side,
                         side, status.sequence + 1, status.value, status.limit);
    case StatusCode::exceeds_tokens:
      return fmt::format("sequence {} of {} ends beyond the token capacity: {} > {}", status.sequence, side,
                         status.value, status.limit);
    case StatusCode::exceeds_max_seqlen:
      return fmt::format("sequence {} of {} is longer than the declared maximum: {} > {}", status.sequence, side,
                         status.value, status.limit);
    case StatusCode::bad_logical_length:
      return fmt::format("sequence {} of {} has the logical length {}, but must be in 0..{}, its physical length",
                         status.sequence, side, status.value, status.limit);
    case StatusCode::workspace_too_small:
      return fmt::format(
          "the workspace is too small: dq_acc needs {} bytes and has {}; sequence {} is the first that "
          "does not fit",
          status.value, status.limit, status.sequence);
  }
  return fmt::format("unknown status code {}", static_cast<std::int32_t>(status.code));
}

}  // namespace fmhax
