#include "problem_flags.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "fmhax/problem.hpp"

namespace fmhax::tool {
namespace {

constexpr const char* kGroup = "Problem";
constexpr const char* kExecutorGroup = "Executor";

std::int64_t parse_integer(const std::string& flag, std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(fmt::format("{}: '{}' is not a whole number from {} to {}", flag, text, least,
                                 std::numeric_limits<std::int32_t>::max()));
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths, const std::string& flag) {
  std::vector<std::int32_t> starts{0};
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) {
    sum += length;
    if (sum > std::numeric_limits<std::int32_t>::max()) {
      throw UsageError(
          fmt::format("{}: the lengths add up to more than {} tokens", flag, std::numeric_limits<std::int32_t>::max()));
    }
    starts.push_back(static_cast<std::int32_t>(sum));
  }
  return starts;
}

/// The lengths of one side: as listed, or `count` times the common one.
std::vector<std::int32_t> lengths_of(const std::string& flag, const std::string& listed, std::int64_t common,
                                     std::size_t count) {
  if (listed.empty()) return std::vector<std::int32_t>(count, static_cast<std::int32_t>(common));
  return parse_lengths(flag, listed);
}

std::int64_t longest(const std::vector<std::int32_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

void check_at_least(const char* flag, std::int64_t given, std::int64_t least, const char* what) {
  if (given < least) throw UsageError(fmt::format("{} is {}, smaller than {}, {}", flag, given, what, least));
}

}  // namespace

std::vector<std::int32_t> parse_lengths(const std::string& flag, const std::string& text) {
  std::vector<std::int32_t> lengths;
  for (const std::string_view part : split(text, ',')) {
    lengths.push_back(static_cast<std::int32_t>(parse_integer(flag, part, 0)));
  }
  return lengths;
}

Mask parse_mask(const std::string& text) {
  if (text.empty() || text == "none") return Mask::none();
  if (text == "causal") return Mask::causal();
  if (text == "bottom-right") return Mask::causal_bottom_right();
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon != std::string::npos && (kind == "window" || kind == "window-br")) {
    const auto bounds = split(std::string_view(text).substr(colon + 1), ',');
    if (bounds.size() == 2) {
      return Mask::window(parse_integer("--mask, left", bounds[0], -1), parse_integer("--mask, right", bounds[1], -1),
                          kind == "window" ? MaskAlignment::top_left : MaskAlignment::bottom_right);
    }
  }
  throw UsageError(fmt::format(
      "--mask: '{}' is none of: none, causal, bottom-right, window:LEFT,RIGHT, window-br:LEFT,RIGHT", text));
}

DataType parse_dtype(const std::string& text) {
  for (const DataType dtype : {DataType::fp32, DataType::fp16, DataType::bf16}) {
    if (text == to_string(dtype)) return dtype;
  }
  throw UsageError(fmt::format("--dtype: '{}' is none of: fp32, fp16, bf16", text));
}

void ProblemFlags::add_to(CLI::App& app) {
  app_ = &app;
  app.add_option("--batch", batch, "Sequences (default 1, or as many as lengths are listed)")->group(kGroup);
  app.add_option("--nhead-q", nhead_q, "Query heads (default 8)")->group(kGroup);
  app.add_option("--nhead-k", nhead_k, "Key and value heads; divides --nhead-q (default: the same)")->group(kGroup);
  app.add_option("--hdim-q", hdim_q, "Head dimension of q and k: a multiple of 8 up to 256 (default 64)")
      ->group(kGroup);
  app.add_option("--hdim-v", hdim_v, "Head dimension of v and o (default: --hdim-q)")->group(kGroup);
  app.add_option("--seqlen-q", seqlen_q,
                 "Length of every query sequence (default 512); beside --seqlens-q the longest that is allowed")
      ->group(kGroup);
  app.add_option("--seqlen-k", seqlen_k, "The same for keys (default: --seqlen-q)")->group(kGroup);
  app.add_option("--seqlens-q", seqlens_q,
                 "Each sequence's length, e.g. 5,0,130: packed with --group, else what is not padding")
      ->group(kGroup);
  app.add_option("--seqlens-k", seqlens_k, "The same for keys (default: --seqlens-q)")->group(kGroup);
  app.add_flag("--group", is_group_mode, "Group mode: sequences of different lengths, packed one after another")
      ->group(kGroup);
  app.add_option("--total-q", total_q, "Group mode: rows of q, a capacity beyond the tokens (default: the tokens)")
      ->group(kGroup);
  app.add_option("--total-k", total_k, "The same for k and v")->group(kGroup);
  app.add_option("--mask", mask,
                 "none, causal, bottom-right, window:LEFT,RIGHT or window-br:LEFT,RIGHT (-1: unbounded)")
      ->group(kGroup);
  app.add_option("--dtype", dtype, "fp32, fp16 or bf16 (default bf16)")->group(kGroup);
  app.add_flag("--deterministic", is_deterministic, "The same bits on every run")->group(kGroup);
  app.add_option("--scale", scale, "Softmax scale (default 1/sqrt(hdim_q))")->group(kGroup);
  app.add_option("--kernel", kernel, "Use this kernel and no other; `fmhax plan` lists them")->group(kExecutorGroup);
  app.add_option("--metadata", metadata, "Who packs the metadata of packed sequences: host (default) or device")
      ->group(kExecutorGroup);
  app.add_option("--keepalive", keepalive, "What gives staging back: event (default) or host-function")
      ->group(kExecutorGroup);
}

std::vector<std::string> ProblemFlags::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options()) {
    const bool is_ours = option->get_group() == kGroup && option->count() > 0;
    if (is_ours) names.push_back(option->get_name());
  }
  return names;
}

ExecutorOptions ProblemFlags::executor_options() const {
  ExecutorOptions options;
  options.kernel = kernel;
  if (metadata == "device") {
    options.metadata_path = MetadataPath::device;
  } else if (!metadata.empty() && metadata != "host") {
    throw UsageError(fmt::format("--metadata is '{}'; it must be host or device", metadata));
  }
  if (keepalive == "host-function") {
    options.keepalive = Keepalive::host_function;
  } else if (!keepalive.empty() && keepalive != "event") {
    throw UsageError(fmt::format("--keepalive is '{}'; it must be event or host-function", keepalive));
  }
  return options;
}

std::string ProblemFlags::executor_flags() const {
  std::string text;
  for (const auto& [flag, value] :
       {std::pair{"--kernel", &kernel}, {"--metadata", &metadata}, {"--keepalive", &keepalive}}) {
    if (!value->empty()) text += fmt::format(" {} {}", flag, *value);
  }
  return text;
}

verification::Case ProblemFlags::to_case() const {
  verification::Case c;
  Problem& p = c.problem;
  p.dtype = parse_dtype(dtype.empty() ? "bf16" : dtype);
  p.mask = parse_mask(mask);
  p.is_group_mode = is_group_mode;
  p.is_deterministic = is_deterministic;
  p.nhead_q = nhead_q.value_or(nhead_k.value_or(8));
  p.nhead_k = nhead_k.value_or(p.nhead_q);
  p.hdim_q = hdim_q.value_or(64);
  p.hdim_v = hdim_v.value_or(p.hdim_q);
  p.max_seqlen_q = seqlen_q.value_or(512);
  p.max_seqlen_k = seqlen_k.value_or(p.max_seqlen_q);
  for (const auto& [flag, value] : {std::pair{"--batch", batch},
                                    {"--seqlen-q", seqlen_q},
                                    {"--seqlen-k", seqlen_k},
                                    {"--total-q", total_q},
                                    {"--total-k", total_k}}) {
    if (value) check_at_least(flag, *value, 0, "the least possible value");
  }

  const bool are_listed = !seqlens_q.empty() || !seqlens_k.empty();
  const std::string& listed_q = seqlens_q.empty() ? seqlens_k : seqlens_q;
  const std::string& listed_k = seqlens_k.empty() ? seqlens_q : seqlens_k;
  const auto count = static_cast<std::size_t>(batch.value_or(1));
  auto lengths_q = lengths_of("--seqlens-q", listed_q, p.max_seqlen_q, count);
  auto lengths_k = lengths_of("--seqlens-k", listed_k, p.max_seqlen_k, count);
  if (lengths_q.size() != lengths_k.size()) {
    throw UsageError(
        fmt::format("--seqlens-q lists {} sequences and --seqlens-k {}", lengths_q.size(), lengths_k.size()));
  }
  p.batch = batch.value_or(static_cast<std::int64_t>(lengths_q.size()));
  check_at_least("--batch", p.batch, static_cast<std::int64_t>(lengths_q.size()), "the number of lengths listed");
  if (are_listed) {
    p.max_seqlen_q = seqlen_q.value_or(longest(lengths_q));
    p.max_seqlen_k = seqlen_k.value_or(longest(lengths_k));
    check_at_least("--seqlen-q", p.max_seqlen_q, longest(lengths_q), "the longest of --seqlens-q");
    check_at_least("--seqlen-k", p.max_seqlen_k, longest(lengths_k), "the longest of --seqlens-k");
    // What --batch allows beyond the list are empty sequences.
    lengths_q.resize(static_cast<std::size_t>(p.batch), 0);
    lengths_k.resize(static_cast<std::size_t>(p.batch), 0);
  }
  if (is_group_mode) {
    c.lengths.q.seqstart = starts_of(lengths_q, "--seqlens-q");
    c.lengths.k.seqstart = starts_of(lengths_k, "--seqlens-k");
    p.total_q = total_q.value_or(c.lengths.q.seqstart.back());
    p.total_k = total_k.value_or(c.lengths.k.seqstart.back());
    check_at_least("--total-q", p.total_q, c.lengths.q.seqstart.back(), "the sum of the query lengths");
    check_at_least("--total-k", p.total_k, c.lengths.k.seqstart.back(), "the sum of the key lengths");
  } else {
    if (total_q || total_k) throw UsageError("--total-q and --total-k are for group mode; add --group");
    if (are_listed) {
      p.logical_lengths = LogicalLengths::per_sequence;
      c.lengths.q.logical = lengths_q;
      c.lengths.k.logical = lengths_k;
    }
  }
  validate(p);
  c.scale = static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(p.hdim_q))));
  if (!(c.scale > 0.0F) || !std::isfinite(c.scale)) {
    throw UsageError(fmt::format("--scale is {}; it must be positive and finite", *scale));
  }
  return c;
}

}  // namespace fmhax::tool
