/// @file What a case's features need in device memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fmhax/tensor.hpp"
#include "verification/case.hpp"
#include "verification/device_buffer.hpp"
#include "verification/device_tensor.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// Owns the arrays of the features that a case has, each between guard zones. All functions block.
class DeviceFeatures {
 public:
  explicit DeviceFeatures(const Case& c);

  /// Uploads the inputs. Elements of the bias that no pair of a real row and a real key reads are NaN.
  void load(const Case& c, const AttentionInputs& inputs);
  /// Points a call to the arrays.
  void fill(CallArguments& arguments) const;
  void poison_outputs();
  void download(Gradients& gradients) const;
  /// A stray write or a changed input, in words; empty: none.
  std::string violation() const;
  /// Seed and offset that the next runs draw with; only where they are read from memory.
  void set_dropout(std::uint64_t seed, std::uint64_t offset);

 private:
  Case case_;
  DropoutArguments dropout_;
  std::optional<DeviceTensor> bias_, dbias_, random_values_, dlse_;
  GuardedBuffer alibi_slopes_, sink_, dsink_, seed_, offset_;
};

}  // namespace fmhax::verification
