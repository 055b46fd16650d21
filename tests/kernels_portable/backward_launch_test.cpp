// Which backward kernel runs a problem, and how it is launched: pure functions, tested without a GPU.
#include "backward_launch.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

// Where doctest finds it.
namespace fmhax::portable {
static bool operator==(const HeadSections& a, const HeadSections& b) {
  return a.together == b.together && a.last == b.last;
}
}  // namespace fmhax::portable

namespace {

using namespace fmhax;
using namespace fmhax::portable;

DeviceTraits h200() {
  DeviceTraits traits;
  traits.multiprocessors = 132;
  traits.shared_memory_per_block = 232448;
  return traits;
}

Problem dense(std::int64_t batch, std::int64_t nhead_q, std::int64_t nhead_k, std::int64_t seqlen, std::int64_t hdim,
              Mask mask = Mask::none()) {
  Problem p;
  p.batch = batch;
  p.nhead_q = nhead_q;
  p.nhead_k = nhead_k;
  p.max_seqlen_q = p.max_seqlen_k = seqlen;
  p.hdim_q = p.hdim_v = hdim;
  p.mask = mask;
  return p;
}

Problem packed(std::int64_t batch, std::int64_t tokens, std::int64_t longest) {
  Problem p = dense(batch, 16, 16, longest, 128, Mask::causal());
  p.is_group_mode = true;
  p.total_q = p.total_k = tokens;
  return p;
}

const BackwardFunctions& functions() {
  static const int marks[4] = {};
  static const BackwardFunctions f{{{&marks[0], &marks[1]}, {&marks[2], &marks[3]}}};
  return f;
}

KernelParams params_of(const Problem& p, std::int64_t stride = 128) {
  KernelParams params;
  params.problem = p;
  for (TensorRef* t : {&params.q, &params.k, &params.v, &params.o, &params.dout, &params.dq, &params.dk, &params.dv}) {
    *t = {nullptr, stride * p.max_seqlen_q, stride, 128};
  }
  return params;
}

BackwardArguments arguments_of(const KernelLaunch& launch) {
  BackwardArguments arguments;
  REQUIRE(launch.argument_count == 2);
  std::memcpy(&arguments, launch.arguments + launch.argument_offset[1], sizeof(arguments));
  return arguments;
}

void check_configurations(TileSet set, std::int64_t shared_memory) {
  for (const DataType dtype : {DataType::fp16, DataType::bf16}) {
    for (int hdim_q = 32; hdim_q <= 256; hdim_q += 32) {
      for (const int hdim_v : {hdim_q, hdim_q > 128 ? 128 : hdim_q}) {
        if (hdim_q == 160 || hdim_q == 224) continue;  // run in the next larger
        for (const bool is_direct : {false, true}) {
          const BackwardConfig plain = backward_config(set, dtype, hdim_q, hdim_v, is_direct, false);
          const BackwardConfig full = backward_config(set, dtype, hdim_q, hdim_v, is_direct, true);
          CAPTURE(hdim_q);
          CAPTURE(is_direct);
          if (!plain.is_available) continue;
          CHECK(plain.is_consistent());
          CHECK(full.is_consistent());
          CHECK(plain.tile_keys() == full.tile_keys());  // the workspace is laid out for either
          CHECK(plain.shared_bytes() <= shared_memory);
          CHECK(full.shared_bytes() <= shared_memory);
        }
      }
    }
  }
}

TEST_CASE("every configuration shares its work evenly and fits a block of its GPU") {
  check_configurations(TileSet::nvidia, h200().shared_memory_per_block);
  check_configurations(TileSet::cdna3, 64 << 10);
  check_configurations(TileSet::cdna4, 160 << 10);
  check_configurations(TileSet::rdna4, 64 << 10);
}

TEST_CASE("a configuration whose warps can't share its tiles is found out") {
  BackwardConfig config = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, false, false);
  config.dq_warps_m = 8;
  CHECK_FALSE(config.is_consistent());
}

TEST_CASE("an architecture without tiles for some head dimensions refuses them") {
  const auto config = [](int hdim_q, int hdim_v) {
    return backward_config(TileSet::rdna4, DataType::bf16, hdim_q, hdim_v, false, false);
  };
  for (const int hdim : {32, 64, 96, 128, 192, 256}) {
    CAPTURE(hdim);
    const char* reason = unsupported_reason(config(hdim, hdim), dense(2, 4, 2, 512, hdim), h200());
    if (hdim == 64 || hdim == 128) {
      CHECK(reason == nullptr);
    } else {
      CHECK(std::string(reason) == "the kernel has no tiles for this GPU");
    }
  }
  CHECK_FALSE(config(192, 128).is_available);
}

TEST_CASE("what a kernel can't run it says") {
  const BackwardConfig config = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, false, false);
  const BackwardConfig direct = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, true, false);
  Problem p = dense(2, 4, 2, 512, 128);
  CHECK(unsupported_reason(config, p, h200()) == nullptr);
  const auto reason = [&](const BackwardConfig& c) { return std::string(unsupported_reason(c, p, h200())); };
  CHECK(reason(direct) == "max_seqlen_k is above the keys of one tile");
  p.max_seqlen_k = 128;
  CHECK(unsupported_reason(direct, p, h200()) == nullptr);
  p.hdim_v = 136;
  CHECK(reason(config) == "the kernel is for smaller head dimensions");
  p.hdim_v = 100;
  CHECK(reason(config) == "head dimensions must be multiples of 8");
  p.hdim_v = 128;
  p.dtype = DataType::fp32;
  CHECK(reason(config) == "the kernel is for another data type");
  p.dtype = DataType::bf16;
  p.max_seqlen_q = (std::int64_t{1} << 30) + 1;
  CHECK(reason(config) == "sequences above 2^30 rows are not supported");
  p.max_seqlen_q = 512;
  DeviceTraits small = h200();
  small.shared_memory_per_block = 48 << 10;
  CHECK(std::string(unsupported_reason(config, p, small)) ==
        "a block of this GPU has too little shared memory for the kernel");
}

TEST_CASE("only general kernels have a workspace, only packed sequences a tile list") {
  const BackwardConfig config = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, false, false);
  const BackwardConfig direct = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, true, false);
  CHECK(workspace_spec(direct, dense(1, 1, 1, 64, 64)).writes_dq_directly);
  const WorkspaceSpec spec = workspace_spec(config, packed(4, 1000, 400));
  CHECK(spec.kN0 == config.tile_keys());
  CHECK(spec.has_tile_list);
  CHECK(spec.can_bound_splits);
  CHECK_FALSE(workspace_spec(config, dense(1, 1, 1, 64, 64)).has_tile_list);
}

TEST_CASE("dq_acc is zeroed where it is added to, or where a split may leave rows out") {
  const BackwardConfig config = backward_config(TileSet::nvidia, DataType::bf16, 128, 128, false, false);
  Problem p = dense(1, 1, 1, 512, 128);
  CHECK(workspace_spec(config, p).needs_zero_dq_acc);
  p.is_deterministic = true;
  CHECK_FALSE(workspace_spec(config, p).needs_zero_dq_acc);
  p.mask = Mask::causal();
  CHECK(workspace_spec(config, p).needs_zero_dq_acc);
  p.mask = Mask::none();
  p.logical_lengths = LogicalLengths::per_sequence;
  CHECK(workspace_spec(config, p).needs_zero_dq_acc);
}

TEST_CASE("heads run together where tiles differ, as many as fit the cache, in the end as many as even things out") {
  const auto sections = [](const Problem& p) {
    return head_sections(section_limits(p, h200()), p.max_seqlen_q, p.max_seqlen_k / 128, p.batch * p.nhead_k, 0);
  };
  CHECK(sections(dense(4, 16, 16, 4096, 128)) == HeadSections{1, 1});
  // 4096 rows of 1 KiB: q, dout and dq_acc of eight heads fit 32 MiB; 17 heads give every multiprocessor four tiles.
  CHECK(sections(dense(4, 16, 16, 4096, 128, Mask::causal())) == HeadSections{8, 17});
  CHECK(sections(dense(32, 16, 16, 512, 128, Mask::causal())) == HeadSections{64, 132});
  CHECK(sections(dense(1, 64, 8, 4096, 128, Mask::causal())) == HeadSections{1, 8});
  CHECK(sections(dense(1, 16, 16, 65536, 128, Mask::causal())) == HeadSections{1, 2});
}

TEST_CASE("of packed sequences the long ones run in sections, unless nothing that follows evens them out") {
  const SectionLimits causal = section_limits(packed(16, 48197, 8192), h200());
  CHECK(head_sections(causal, 8192, 64, 16, 5000) == HeadSections{4, 4});
  CHECK(head_sections(causal, 8192, 64, 16, 400) == HeadSections{4, 4});
  CHECK(head_sections(causal, 8192, 64, 16, 0) == HeadSections{4, 9});
  CHECK(head_sections(causal, 65536, 512, 16, 5000) == HeadSections{1, 1});
  CHECK(head_sections(causal, 2048, 16, 16, 5000) == HeadSections{16, 16});
  CHECK(head_sections(causal, 0, 3, 16, 0) == HeadSections{16, 16});
  CHECK(head_sections({}, 8192, 64, 16, 0) == HeadSections{1, 1});
}

TEST_CASE("every tile of every head is one job, section by section, all heads of a tile before the next") {
  for (std::int64_t tiles = 1; tiles <= 7; ++tiles) {
    for (std::int64_t heads = 1; heads <= 9; ++heads) {
      for (std::int64_t together = 1; together <= heads; ++together) {
        for (std::int64_t last = 1; last <= heads; ++last) {
          CAPTURE(tiles);
          CAPTURE(heads);
          CAPTURE(together);
          CAPTURE(last);
          std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> places;
          for (std::int64_t i = 0; i < tiles * heads; ++i) {
            const JobPlace at = job_place(i, tiles, heads, {together, last});
            REQUIRE((at.head >= 0 && at.head < heads && at.tile >= 0 && at.tile < tiles));
            places.emplace_back(at.head < heads - last ? at.head / together : heads, at.tile, at.head);
          }
          CHECK(std::is_sorted(places.begin(), places.end()));
          CHECK(std::adjacent_find(places.begin(), places.end()) == places.end());
        }
      }
    }
  }
}

TEST_CASE("blocks share the jobs, and the parts of the tail, so that each is one block's") {
  for (std::int64_t side_by_side = 1; side_by_side <= 5; ++side_by_side) {
    for (std::int64_t blocks = 1; blocks <= 6 * side_by_side; ++blocks) {
      const std::int64_t most = blocks % side_by_side == 0 ? 3 * blocks + 2 : blocks;
      for (std::int64_t jobs = 0; jobs <= most; ++jobs) {
        CAPTURE(side_by_side);
        CAPTURE(blocks);
        CAPTURE(jobs);
        std::vector<int> runs(static_cast<std::size_t>(jobs));
        std::multiset<std::int64_t> parts;
        std::int64_t count = 0;
        const auto clear = [&](std::int64_t index) {
          const Part part = tail_part(index, blocks, side_by_side, jobs);
          count = part.count;
          if (part.index >= 0 && part.index < part.count) parts.insert(part.index);
        };
        for (std::int64_t block = 0; block < blocks; ++block) {
          const BlockShare share = block_share(block, blocks, side_by_side, jobs);
          clear(share.first);
          for (std::int64_t i = share.first; i < share.end; i += side_by_side) {
            ++runs[static_cast<std::size_t>(i)];
            if (i != share.first) clear(i);
          }
        }
        CHECK(std::all_of(runs.begin(), runs.end(), [](int times) { return times == 1; }));
        CHECK(static_cast<std::int64_t>(parts.size()) == count);
        CHECK(static_cast<std::int64_t>(std::set(parts.begin(), parts.end()).size()) == count);
      }
    }
  }
}

TEST_CASE("blocks that take turns keep near the order of jobs") {
  // 46 rounds of 132 jobs for 16 rows of 132 blocks: two or three rounds each, the longer shares first.
  const BlockShare first = block_share(0, 16 * 132, 132, 6072);
  CHECK(first.first == 0);
  CHECK(first.end == 3 * 132);
  const BlockShare last = block_share(16 * 132 - 1, 16 * 132, 132, 6072);
  CHECK(last.first == 45 * 132 - 1);
  CHECK(last.end == 46 * 132);
}

TEST_CASE("the first jobs clear nothing, and blocks without a job help where jobs are few") {
  CHECK(tail_part(0, 16 * 132, 132, 6000).index < 0);
  CHECK(tail_part(132, 16 * 132, 132, 6000).index == 0);
  CHECK(tail_part(132, 16 * 132, 132, 6000).count == 6000 - 132);
  CHECK(tail_part(300, 880, 132, 256).count == 4 * 132 - 132);
  CHECK(tail_part(0, 100, 132, 10).count == 100);
}

TEST_CASE("a launch covers each tile of each key head once, or in deterministic mode each split") {
  KernelLaunch launch;
  KernelParams params = params_of(dense(4, 16, 8, 1000, 128));
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.function == functions().function[0][0]);
  CHECK(launch.grid[0] == 4 * 8 * 8);
  CHECK(launch.block[0] == 256);
  CHECK(arguments_of(launch).jobs_per_head == 8);
  CHECK(arguments_of(launch).is_aligned);
  params.problem.is_deterministic = true;
  params.max_splits = 3;
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(arguments_of(launch).jobs_per_head == 3);
  CHECK(launch.grid[0] == 4 * 8 * 3);
}

TEST_CASE("the grid of packed sequences doesn't grow with their capacity beyond a few blocks a multiprocessor") {
  KernelLaunch launch;
  const KernelParams params = params_of(packed(32, 400000, 8192));
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.grid[0] == 16 * 132);
  CHECK(arguments_of(launch).jobs > launch.grid[0]);
}

TEST_CASE("features, and rows that aren't aligned, take the kernels that have them") {
  KernelLaunch launch;
  KernelParams params = params_of(dense(1, 2, 2, 100, 128));
  REQUIRE(form_backward(true, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.function == functions().function[1][0]);
  params.problem.has_softcap = true;
  REQUIRE(form_backward(true, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.function == functions().function[1][1]);
  params = params_of(dense(1, 2, 2, 100, 128), 129);
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.function == functions().function[0][1]);
  CHECK_FALSE(arguments_of(launch).is_aligned);
}

TEST_CASE("GPUs with less shared memory run every head dimension, on smaller tiles") {
  DeviceTraits a100 = h200();
  a100.multiprocessors = 108;
  a100.shared_memory_per_block = 166912;
  for (const int hdim : {32, 64, 96, 128, 192, 256}) {
    CAPTURE(hdim);
    const Problem p = dense(2, 4, 4, 1000, hdim);
    CHECK(unsupported_reason(backward_config(TileSet::nvidia, DataType::bf16, hdim, hdim, false, false), p, a100) ==
          nullptr);
    KernelLaunch launch;
    REQUIRE(form_backward(false, functions(), hdim, hdim, a100, params_of(p), launch));
    CHECK(launch.shared_bytes <= a100.shared_memory_per_block);
  }
}

TEST_CASE("rows of no sequence are cleared even where there is no tile") {
  KernelLaunch launch;
  KernelParams params = params_of(packed(0, 100, 8));
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.grid[0] == 1);
  params = params_of(packed(0, 0, 8));
  REQUIRE(form_backward(false, functions(), 128, 128, h200(), params, launch));
  CHECK(launch.grid[0] == 0);
}

}  // namespace
