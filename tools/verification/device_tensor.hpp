/// @file One tensor of a case in device memory, in any layout, with NaN wherever no element is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmhax/tensor.hpp"
#include "verification/case.hpp"
#include "verification/dense_tensor.hpp"
#include "verification/device_buffer.hpp"

namespace fmhax::verification {

/// The [batch, seqlen, nhead, hdim] of a tensor and how it lies in memory.
struct TensorShape {
  DataType dtype = DataType::fp32;
  std::int64_t batch = 0;
  std::int64_t seqlen = 0;
  std::int64_t nhead = 0;
  std::int64_t hdim = 0;
  Layout layout{};
};

class DeviceTensor {
 public:
  explicit DeviceTensor(const TensorShape& shape);

  const TensorView& view() const { return view_; }

  /// Writes the given rows of `values` and poisons everything else. Blocking.
  void upload(const DenseTensor& values, const std::vector<SequencePlace>& rows);
  /// Poisons everything. Blocking.
  void poison();
  /// Every element of the view. Blocking.
  DenseTensor download() const;
  /// What was written that must not be: a guard zone, or a byte between the rows of a slice; empty if nothing.
  std::string stray_write() const;
  /// Whether the contents are still what upload() left.
  bool is_unchanged() const { return buffer_.download() == uploaded_; }

 private:
  std::int64_t element_index(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return b * view_.stride_batch + s * view_.stride_seqlen + h * view_.stride_nhead;
  }

  TensorView view_;
  GuardedBuffer buffer_;
  std::vector<std::byte> uploaded_;
};

}  // namespace fmhax::verification
