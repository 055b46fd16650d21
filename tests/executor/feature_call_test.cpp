// The arguments of features: what is wrong is refused by name, what isn't asked for too.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// The case's own type, or where the device's kernels have features in others alone, one of those.
void choose_supported_dtype(Case& c) {
  for (const DataType dtype : {c.problem.dtype, DataType::fp16}) {
    c.problem.dtype = dtype;
    if (message_of([&] { const Executor executor(c.problem); }) == "nothing was thrown") return;
  }
}

/// Every call is refused with a message that contains its text; the unspoilt one then still computes.
void check_refused(Call& call, const std::vector<BadCall>& bad_calls) {
  const OwnedStream stream;
  for (const BadCall& bad : bad_calls) {
    CallArguments arguments = call.arguments();
    bad.spoil(arguments);
    const std::string message = message_of([&] { call.executor.enqueue(arguments, stream.get()); });
    CAPTURE(bad.names);
    CHECK_MESSAGE(message.find(bad.names) != std::string::npos, message);
  }
  CHECK(failure_of_replay(call, [&](hipStream_t given) { call.executor.enqueue(call.arguments(), given); }) == "");
}

Case feature_case(BiasKind bias) {
  Case c = long_case();
  Problem& p = c.problem;
  p.bias = bias;
  p.has_dbias = bias == BiasKind::elementwise;
  p.has_dropout = p.stores_random_values = p.has_sink = p.has_softcap = p.has_dlse = true;
  c.features.softcap = 4.0F;
  c.features.dropout_probability = 0.25F;
  choose_supported_dtype(c);
  return c;
}

}  // namespace

TEST_CASE("every wrong argument of a feature is refused by name") {
  Call call(feature_case(BiasKind::elementwise));
  float pageable[4] = {};
  std::uint64_t pageable_seed = 0;
  check_refused(
      call,
      {{"bias.data is null", [](CallArguments& a) { a.bias.data = nullptr; }},
       {"bias.dtype is bf16, must be", [](CallArguments& a) { a.bias.dtype = DataType::bf16; }},
       {"bias.nhead is 3, must be 2 or, broadcast, 1", [](CallArguments& a) { a.bias.nhead = 3; }},
       {"bias.seqlen is 399", [](CallArguments& a) { a.bias.seqlen = kCapacity - 1; }},
       {"bias.hdim is 16", [](CallArguments& a) { a.bias.hdim = 16; }},
       {"bias.stride_hdim is 2", [](CallArguments& a) { a.bias.stride_hdim = 2; }},
       {"dbias.data is null", [](CallArguments& a) { a.dbias.data = nullptr; }},
       {"dbias.batch is 2, must be 1", [](CallArguments& a) { a.dbias.batch = 2; }},
       {"dbias.stride_nhead is 0", [](CallArguments& a) { a.dbias.stride_nhead = 0; }},
       {"dbias.data and bias.data are the same buffer", [](CallArguments& a) { a.dbias = a.bias; }},
       {"dv.data and dbias.data are the same buffer", [](CallArguments& a) { a.dbias.data = a.dv.data; }},
       {"random_values.dtype is fp32, must be uint8", [](CallArguments& a) { a.random_values.dtype = DataType::fp32; }},
       {"random_values.nhead is 1", [](CallArguments& a) { a.random_values.nhead = 1; }},
       {"random_values.data is null", [](CallArguments& a) { a.random_values.data = nullptr; }},
       {"dropout.probability is 1", [](CallArguments& a) { a.dropout.probability = 1.0F; }},
       {"dropout.probability is -0.5", [](CallArguments& a) { a.dropout.probability = -0.5F; }},
       {"dropout.probability is nan", [](CallArguments& a) { a.dropout.probability = std::nanf(""); }},
       {"dropout.seed_pointer is", [&](CallArguments& a) { a.dropout.seed_pointer = &pageable_seed; }},
       {"dropout.offset_pointer is", [&](CallArguments& a) { a.dropout.offset_pointer = &pageable_seed; }},
       {"softcap is 0", [](CallArguments& a) { a.softcap = 0.0F; }},
       {"softcap is -1", [](CallArguments& a) { a.softcap = -1.0F; }},
       {"softcap is inf", [](CallArguments& a) { a.softcap = std::numeric_limits<float>::infinity(); }},
       {"sink is null", [](CallArguments& a) { a.sink = nullptr; }},
       {"sink is 0x", [&](CallArguments& a) { a.sink = pageable; }},
       {"dsink is null", [](CallArguments& a) { a.dsink = nullptr; }},
       {"dsink and sink are the same buffer", [](CallArguments& a) { a.dsink = const_cast<float*>(a.sink); }},
       {"dlse.data is null", [](CallArguments& a) { a.dlse.data = nullptr; }},
       {"dlse.hdim is 16", [](CallArguments& a) { a.dlse.hdim = 16; }},
       {"alibi_slopes is set", [](CallArguments& a) { a.alibi_slopes = a.sink; }}});
}

TEST_CASE("wrong slopes are refused by name") {
  Call call(feature_case(BiasKind::alibi));
  check_refused(call, {{"alibi_slopes is null", [](CallArguments& a) { a.alibi_slopes = nullptr; }},
                       {"alibi_stride_batch is -1", [](CallArguments& a) { a.alibi_stride_batch = -1; }},
                       {"bias is set", [](CallArguments& a) { a.bias = a.q; }},
                       {"dbias is set", [](CallArguments& a) { a.dbias = a.dq; }}});
}

TEST_CASE("what a plain problem doesn't ask for is refused by name") {
  Call call(long_case());
  const float* some_floats = static_cast<const float*>(call.arguments().lse.data);
  check_refused(call, {{"bias is set, but the problem does not ask for it", [](CallArguments& a) { a.bias = a.q; }},
                       {"dbias is set", [](CallArguments& a) { a.dbias = a.dq; }},
                       {"alibi_slopes is set", [&](CallArguments& a) { a.alibi_slopes = some_floats; }},
                       {"alibi_stride_batch is set", [](CallArguments& a) { a.alibi_stride_batch = 2; }},
                       {"softcap is set", [](CallArguments& a) { a.softcap = 20.0F; }},
                       {"dropout is set", [](CallArguments& a) { a.dropout.probability = 0.1F; }},
                       {"random_values is set", [](CallArguments& a) { a.random_values = a.q; }},
                       {"sink is set", [&](CallArguments& a) { a.sink = some_floats; }},
                       {"dsink is set", [](CallArguments& a) { a.dsink = static_cast<float*>(a.dq.data); }},
                       {"dlse is set", [](CallArguments& a) { a.dlse = a.lse; }}});
}

TEST_CASE("kernels that write dq themselves need d with dbias or sink alone") {
  for (const bool has_sink : {false, true}) {
    Case c = group_case({30, 7}, 64);
    c.problem.has_sink = has_sink;
    choose_supported_dtype(c);
    Call call(c);
    if (!call.executor.workspace_spec().writes_dq_directly) continue;
    CallArguments without = call.arguments();
    without.d = {};
    const OwnedStream stream;
    const std::string message = message_of([&] { call.executor.enqueue(without, stream.get()); });
    CHECK((message == "nothing was thrown") == !has_sink);
    stream.synchronize();
  }
}
