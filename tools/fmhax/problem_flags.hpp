/// @file The flags that describe one problem, shared by every subcommand.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "fmhax/executor.hpp"
#include "verification/case.hpp"

namespace fmhax::tool {

/// A command line that can't be carried out as given; the message names the flag. Exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Values as they were given; what is absent follows from the rest.
struct ProblemFlags {
  std::optional<std::int64_t> batch, nhead_q, nhead_k, hdim_q, hdim_v, seqlen_q, seqlen_k, total_q, total_k;
  std::optional<double> scale;
  std::string seqlens_q, seqlens_k, mask, dtype;
  std::string kernel, metadata, keepalive;  ///< how it is run
  bool is_group_mode = false;
  bool is_deterministic = false;

  void add_to(CLI::App& app);
  /// Names of the flags that were given and that describe the problem.
  std::vector<std::string> given() const;
  /// Throws UsageError, or fmhax::Error from validate().
  verification::Case to_case() const;
  /// Throws UsageError.
  ExecutorOptions executor_options() const;
  /// The flags that executor_options() came from, as they would be typed, each with a space before it.
  std::string executor_flags() const;

 private:
  CLI::App* app_ = nullptr;
};

/// "5,0,130" as numbers; throws UsageError naming `flag`.
std::vector<std::int32_t> parse_lengths(const std::string& flag, const std::string& text);
/// none, causal, bottom-right, window:L,R or window-br:L,R; throws UsageError.
Mask parse_mask(const std::string& text);
/// fp32, fp16 or bf16; throws UsageError.
DataType parse_dtype(const std::string& text);

}  // namespace fmhax::tool
