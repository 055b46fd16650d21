// Plans for tensors and accumulators that no machine here could hold: nothing of them is run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "call_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// 2^37 elements in q, and as many in dq_acc.
Problem large_problem() {
  Problem problem;
  problem.batch = 4;
  problem.nhead_q = problem.nhead_k = 128;
  problem.hdim_q = problem.hdim_v = 256;
  problem.max_seqlen_q = problem.max_seqlen_k = 1 << 20;
  return problem;
}
constexpr std::int64_t kElements = std::int64_t{1} << 37;

/// Arguments whose tensors begin in a small piece of device memory.
struct SmallMemory {
  SmallMemory() { check_hip(hipMalloc(&memory, 1 << 16), "hipMalloc"); }
  ~SmallMemory() { (void)hipFree(memory); }
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;
  char* at(int place) const { return static_cast<char*>(memory) + place * 1024; }
  void* memory = nullptr;
};

}  // namespace

TEST_CASE("a plan for more than 2^31 elements has their size in bytes, and zeroes as many") {
  Problem p = large_problem();
  p.is_group_mode = true;
  p.total_q = p.total_k = p.batch * p.max_seqlen_q;
  const Executor executor(p);
  const std::int64_t metadata = workspace_host_size(executor.workspace_spec(), p.batch);
  CHECK(executor.workspace_size() == metadata + kElements * 4);
  CHECK(executor.describe_nodes().find(fmt::format("memset {} bytes", kElements * 4)) != std::string::npos);
}

TEST_CASE("a call with more than 2^31 elements in its tensors passes the checks, and only with all of its workspace") {
  Problem p = large_problem();
  p.is_group_mode = p.is_deterministic = true;  // nothing is zeroed, which the runtime would check
  p.total_q = p.total_k = p.batch * p.max_seqlen_q;
  const Executor executor(p);
  CHECK(executor.workspace_size() > kElements * 4);

  const SmallMemory memory;
  CallArguments call;
  int place = 0;
  for (auto* view : {&call.q, &call.k, &call.v, &call.o, &call.dout, &call.dq, &call.dk, &call.dv}) {
    *view = TensorView::thd(memory.at(place++), p.dtype, p.total_q, p.nhead_q, p.hdim_q);
  }
  for (auto* view : {&call.lse, &call.d}) {
    *view = TensorView::rows_ht(reinterpret_cast<float*>(memory.at(place++)), p.nhead_q, p.total_q);
  }
  call.lengths.seqstart_q = call.lengths.seqstart_k = reinterpret_cast<const std::int32_t*>(memory.at(place++));
  call.workspace = memory.at(place++);
  call.workspace_bytes = executor.workspace_size();
  CHECK_NOTHROW(Graph(executor, call));  // not launched
  call.workspace_bytes -= 1;
  CHECK_THROWS_AS(Graph(executor, call), Error);
}

TEST_CASE("sizes that do not fit 64 bits are refused while planning, extents that don't in the call") {
  Problem p = large_problem();
  p.batch = p.nhead_q = p.nhead_k = (std::int64_t{1} << 31) - 1;
  try {
    const Executor executor(p);
    FAIL("a plan was made");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::overflow);
  }
}
