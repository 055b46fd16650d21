#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "call_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

bool all_nan(const verification::DenseTensor& tensor) {
  for (const double value : tensor.data) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

/// The call is refused with a message that names the field, eagerly and while capturing, and enqueues nothing.
void check_refused(Call& call, const CallArguments& arguments, const std::string& names) {
  const OwnedStream stream;
  call.device.poison_outputs();
  const std::string message = message_of([&] { call.executor.enqueue(arguments, stream.get()); });
  CAPTURE(names);
  CHECK_MESSAGE(message.find(names) != std::string::npos, message);
  stream.synchronize();
  const Gradients gradients = call.device.download_gradients();
  CHECK(all_nan(gradients.dq));
  CHECK(all_nan(gradients.dk));
  CHECK(all_nan(gradients.dv));

  const CapturedGraph captured([&](hipStream_t capturing) {
    CHECK(message_of([&] { call.executor.enqueue(arguments, capturing); }).find(names) != std::string::npos);
  });
  CHECK(node_count(captured.graph()) == 0);
  CHECK(message_of([&] { const Graph graph(call.executor, arguments); }).find(names) != std::string::npos);
}

}  // namespace

TEST_CASE("every wrong argument is refused by name before anything is enqueued") {
  Call call(long_case());
  float pageable[4] = {};
  std::int32_t pageable_starts[8] = {};
  std::vector<BadCall> bad_calls{
      {"q.data is null", [](CallArguments& a) { a.q.data = nullptr; }},
      {"k.dtype is bf16", [](CallArguments& a) { a.k.dtype = DataType::bf16; }},
      {"v.hdim is 8", [](CallArguments& a) { a.v.hdim = 8; }},
      {"o.seqlen is 399", [](CallArguments& a) { a.o.seqlen = kCapacity - 1; }},
      {"dout.nhead is 3", [](CallArguments& a) { a.dout.nhead = 3; }},
      {"dout.batch is 2", [](CallArguments& a) { a.dout.batch = 2; }},
      {"lse.dtype is fp16", [](CallArguments& a) { a.lse.dtype = DataType::fp16; }},
      {"lse.hdim is 16", [](CallArguments& a) { a.lse.hdim = 16; }},
      {"d.data is null", [](CallArguments& a) { a.d.data = nullptr; }},
      {"dq.stride_nhead is 0", [](CallArguments& a) { a.dq.stride_nhead = 0; }},
      {"dv.stride_seqlen is 8", [](CallArguments& a) { a.dv.stride_seqlen = 8; }},
      {"dk.stride_hdim is 2", [](CallArguments& a) { a.dk.stride_hdim = 2; }},
      {"q.stride_seqlen is -32", [](CallArguments& a) { a.q.stride_seqlen = -32; }},
      {"k.stride_seqlen", [](CallArguments& a) { a.k.stride_seqlen = std::numeric_limits<std::int64_t>::max() / 2; }},
      {"v.data is 0x", [](CallArguments& a) { a.v.data = static_cast<char*>(a.v.data) + 2; }},
      {"o.data is", [&](CallArguments& a) { a.o.data = pageable; }},
      {"dq.data and dk.data are the same buffer", [](CallArguments& a) { a.dk.data = a.dq.data; }},
      {"dv.data and v.data are the same buffer", [](CallArguments& a) { a.dv.data = a.v.data; }},
      {"scale is 0", [](CallArguments& a) { a.scale = 0.0F; }},
      {"scale is nan", [](CallArguments& a) { a.scale = std::nanf(""); }},
      {"scale is inf", [](CallArguments& a) { a.scale = std::numeric_limits<float>::infinity(); }},
      {"lengths.seqstart_q is null", [](CallArguments& a) { a.lengths.seqstart_q = nullptr; }},
      {"lengths.seqstart_k is null", [](CallArguments& a) { a.lengths.seqstart_k = nullptr; }},
      {"lengths.seqstart_k is 0x", [&](CallArguments& a) { a.lengths.seqstart_k = pageable_starts; }},
      {"lengths.seqlen_q is set", [](CallArguments& a) { a.lengths.seqlen_q = a.lengths.seqstart_q; }},
      {"lengths.cu_seqlen_k is set", [](CallArguments& a) { a.lengths.cu_seqlen_k = a.lengths.seqstart_k; }},
      {"workspace is", [](CallArguments& a) { a.workspace = static_cast<char*>(a.workspace) + 4; }},
      {"workspace_bytes is", [](CallArguments& a) { --a.workspace_bytes; }},
  };
  for (const BadCall& bad : bad_calls) {
    CallArguments arguments = call.arguments();
    bad.spoil(arguments);
    check_refused(call, arguments, bad.names);
  }

  const OwnedStream stream;  // and the call that was right all along still is
  call.device.poison_outputs();
  call.executor.enqueue(call.arguments(), stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("a missing workspace is refused where nobody can allocate it") {
  Call call(long_case());
  CallArguments arguments = call.arguments();
  arguments.workspace = nullptr;
  const OwnedStream stream;
  CHECK(message_of([&] { call.executor.enqueue(arguments, stream.get()); }).find("workspace is null") !=
        std::string::npos);
}

TEST_CASE("both kinds of logical lengths at once are refused, and each alone where the other is planned") {
  Case c = long_case();
  c.problem.logical_lengths = LogicalLengths::per_sequence;
  c.lengths.q.logical = c.lengths.k.logical = {290, 0, 1, 70};
  Call call(c);
  CallArguments both = call.arguments();
  both.lengths.cu_seqlen_q = both.lengths.seqstart_q;
  check_refused(call, both, "lengths.cu_seqlen_q is set");
  CallArguments none = call.arguments();
  none.lengths.seqlen_k = nullptr;
  check_refused(call, none, "lengths.seqlen_k is null");
}

TEST_CASE("host lengths that are wrong are refused when the workspace is prepared from them") {
  Call call(long_case());
  const OwnedStream stream;
  const auto prepare_with = [&](std::vector<std::int32_t> starts) {
    SequenceLengths lengths;
    lengths.seqstart_q = lengths.seqstart_k = starts.data();
    return message_of([&] { call.executor.prepare_workspace(call.arguments(), lengths, stream.get()); });
  };
  CHECK(prepare_with({1, 300, 300, 301, 378}).find("seqstart_q[0] is 1") != std::string::npos);
  CHECK(prepare_with({0, 300, 299, 301, 378}).find("sequence 1 of q") != std::string::npos);
  CHECK(prepare_with({0, 300, 300, 301, 401}).find("sequence 3 of q") != std::string::npos);
  CHECK(prepare_with({0, 300, 300, 301, 378}) == "nothing was thrown");
}

TEST_CASE("a problem that no kernel runs is refused with every kernel's reason") {
  ExecutorOptions options;
  options.kernel = "no-such-kernel";
  const std::string message = message_of([&] { const Executor executor(long_case().problem, options); });
  for (const KernelEntry& entry : registered_kernels()) CHECK(message.find(entry.name) != std::string::npos);
}
