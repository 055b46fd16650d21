#include "fmhax/problem.hpp"

#include <limits>

#include <fmt/format.h>

#include "fmhax/error.hpp"

namespace fmhax {
namespace {

// Sequence starts are int32, and counts below this keep every product of two of them within 64 bits.
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

template <typename T>
[[noreturn]] void refuse(const char* field, const T& value, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, fmt::format("problem.{} is {}, but must be {}", field, value, allowed));
}

void check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) refuse(field, value, fmt::format("in {}..{}", low, high));
}

void check_hdim(const char* field, std::int64_t value) {
  if (value < 8 || value > 256 || value % 8 != 0) refuse(field, value, "a multiple of 8 in 8..256");
}

template <typename Enum>
void check_enum(const char* field, Enum value, Enum last, const char* names) {
  const auto number = static_cast<std::int32_t>(value);
  if (number < 0 || number > static_cast<std::int32_t>(last)) {
    refuse(field, number, fmt::format("in 0..{} ({})", static_cast<std::int32_t>(last), names));
  }
}

void check_total(const char* field, bool is_group_mode, std::int64_t value) {
  if (is_group_mode) {
    check_range(field, value, 0, kMaxCount);
  } else if (value != 0) {
    refuse(field, value, "0 in batch mode, where batch and max_seqlen give the rows");
  }
}

}  // namespace

void validate(const Problem& p) {
  check_enum("dtype", p.dtype, DataType::bf16, "fp32, fp16, bf16");
  check_range("batch", p.batch, 0, kMaxCount);
  check_range("nhead_q", p.nhead_q, 1, kMaxCount);
  check_range("nhead_k", p.nhead_k, 1, kMaxCount);
  if (p.nhead_q % p.nhead_k != 0) {
    refuse("nhead_q", p.nhead_q, fmt::format("a multiple of nhead_k = {}", p.nhead_k));
  }
  check_hdim("hdim_q", p.hdim_q);
  check_hdim("hdim_v", p.hdim_v);
  check_range("max_seqlen_q", p.max_seqlen_q, 0, kMaxCount);
  check_range("max_seqlen_k", p.max_seqlen_k, 0, kMaxCount);
  check_total("total_q", p.is_group_mode, p.total_q);
  check_total("total_k", p.is_group_mode, p.total_k);
  check_enum("mask.alignment", p.mask.alignment, MaskAlignment::bottom_right, "top_left, bottom_right");
  check_range("mask.window_left", p.mask.window_left, -1, kMaxCount);
  check_range("mask.window_right", p.mask.window_right, -1, kMaxCount);
  check_enum("logical_lengths", p.logical_lengths, LogicalLengths::cumulative, "none, per_sequence, cumulative");
  check_enum("bias", p.bias, BiasKind::alibi, "none, elementwise, alibi");
  check_enum("alibi_form", p.alibi_form, AlibiForm::column, "distance_top_left, distance_bottom_right, column");
  if (p.alibi_form != AlibiForm::distance_top_left && p.bias != BiasKind::alibi) {
    refuse("alibi_form", static_cast<std::int32_t>(p.alibi_form), "0 (distance_top_left) unless bias is alibi");
  }
  if (p.has_dbias && p.bias != BiasKind::elementwise) {
    refuse("has_dbias", true, "false unless bias is elementwise");
  }
  if (p.stores_random_values && !p.has_dropout) {
    refuse("stores_random_values", true, "false unless has_dropout is true");
  }
}

const char* to_string(DataType dtype) noexcept {
  switch (dtype) {
    case DataType::fp32:
      return "fp32";
    case DataType::fp16:
      return "fp16";
    case DataType::bf16:
      return "bf16";
    case DataType::uint8:
      return "uint8";
  }
  return "unknown_dtype";
}

std::string to_string(const Mask& mask) {
  if (mask.is_none()) return "none";
  const bool is_bottom_right = mask.alignment == MaskAlignment::bottom_right;
  if (mask.window_left < 0 && mask.window_right == 0) return is_bottom_right ? "bottom-right" : "causal";
  return fmt::format("window:{},{}{}", mask.window_left, mask.window_right, is_bottom_right ? ",bottom-right" : "");
}

std::string to_string(const Problem& p) {
  std::string text = fmt::format("{} {} batch={} nhead={}/{} hdim={}/{} max_seqlen={}/{}", to_string(p.dtype),
                                 p.is_group_mode ? "group" : "batch", p.batch, p.nhead_q, p.nhead_k, p.hdim_q, p.hdim_v,
                                 p.max_seqlen_q, p.max_seqlen_k);
  if (p.is_group_mode) text += fmt::format(" total={}/{}", p.total_q, p.total_k);
  if (!p.mask.is_none()) text += " " + to_string(p.mask);
  if (p.is_deterministic) text += " deterministic";
  if (p.logical_lengths == LogicalLengths::per_sequence) text += " seqlen";
  if (p.logical_lengths == LogicalLengths::cumulative) text += " cu_seqlen";
  if (p.bias == BiasKind::elementwise) text += " bias";
  if (p.bias == BiasKind::alibi) {
    text += p.alibi_form == AlibiForm::column                  ? " alibi:column"
            : p.alibi_form == AlibiForm::distance_bottom_right ? " alibi:bottom-right"
                                                               : " alibi";
  }
  if (p.has_dbias) text += " dbias";
  if (p.has_dropout) text += " dropout";
  if (p.stores_random_values) text += " random_values";
  if (p.has_sink) text += " sink";
  if (p.has_softcap) text += " softcap";
  if (p.has_dlse) text += " dlse";
  return text;
}

}  // namespace fmhax
