#include <string>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"
#include "fmhax/status.hpp"

using namespace fmhax;

TEST_CASE("a status says which sequence of which side is wrong, and how") {
  CHECK(to_string(CallStatus{}) == "ok");
  CHECK(to_string(CallStatus{StatusCode::first_not_zero, SequenceSide::k, 0, 5, 0, 1}) ==
        "seqstart_k[0] is 5, but must be 0");
  CHECK(to_string(CallStatus{StatusCode::decreasing, SequenceSide::q, 3, 7, 9, 1}) ==
        "sequence 3 of q ends before it starts: seqstart_q[4] = 7 < 9");
  CHECK(to_string(CallStatus{StatusCode::exceeds_tokens, SequenceSide::k, 2, 1030, 1024, 1}) ==
        "sequence 2 of k ends beyond the token capacity: 1030 > 1024");
  CHECK(to_string(CallStatus{StatusCode::exceeds_max_seqlen, SequenceSide::q, 3, 600, 512, 1}) ==
        "sequence 3 of q is longer than the declared maximum: 600 > 512");
  CHECK(to_string(CallStatus{StatusCode::bad_logical_length, SequenceSide::q, 1, -1, 40, 1}) ==
        "sequence 1 of q has the logical length -1, but must be in 0..40, its physical length");
  CHECK(to_string(CallStatus{StatusCode::workspace_too_small, SequenceSide::q, 4, 4096, 1024, 1}) ==
        "the workspace is too small: dq_acc needs 4096 bytes and has 1024; sequence 4 is the first that does not fit");
  CHECK(to_string(CallStatus{StatusCode{99}, SequenceSide::q, 0, 0, 0, 0}) == "unknown status code 99");
}

TEST_CASE("codes have their own names") {
  CHECK(std::string(to_string(StatusCode::ok)) == "ok");
  CHECK(std::string(to_string(StatusCode::first_not_zero)) == "first_not_zero");
  CHECK(std::string(to_string(StatusCode::decreasing)) == "decreasing");
  CHECK(std::string(to_string(StatusCode::exceeds_tokens)) == "exceeds_tokens");
  CHECK(std::string(to_string(StatusCode::exceeds_max_seqlen)) == "exceeds_max_seqlen");
  CHECK(std::string(to_string(StatusCode::bad_logical_length)) == "bad_logical_length");
  CHECK(std::string(to_string(StatusCode::workspace_too_small)) == "workspace_too_small");
  CHECK(std::string(to_string(StatusCode{99})) == "unknown_status_code");
  CHECK(std::string(to_string(ErrorCode::invalid_argument)) == "invalid_argument");
  CHECK(std::string(to_string(ErrorCode::unsupported)) == "unsupported");
  CHECK(std::string(to_string(ErrorCode::workspace_too_small)) == "workspace_too_small");
  CHECK(std::string(to_string(ErrorCode::overflow)) == "overflow");
  CHECK(std::string(to_string(ErrorCode::out_of_memory)) == "out_of_memory");
  CHECK(std::string(to_string(ErrorCode::hip)) == "hip");
  CHECK(std::string(to_string(ErrorCode{99})) == "unknown_error_code");
}

TEST_CASE("an error keeps its code, message and HIP error") {
  const Error error(ErrorCode::hip, "hipMalloc: hipErrorOutOfMemory", 2);
  CHECK(error.code() == ErrorCode::hip);
  CHECK(error.hip_error() == 2);
  CHECK(std::string(error.what()) == "hipMalloc: hipErrorOutOfMemory");
  CHECK(Error(ErrorCode::overflow, "x").hip_error() == 0);
}
