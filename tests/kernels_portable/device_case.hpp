/// @file A case of tools/verification as one kernel gets it: tensors, lengths and workspace in guarded device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/workspace.hpp"
#include "verification/case.hpp"
#include "verification/device_buffer.hpp"
#include "verification/device_tensor.hpp"
#include "verification/random.hpp"

namespace fmhax::portable::test {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

/// Case `index` of a list in 16-bit types and without features: random_problem() with now and then rows that begin at
/// odd elements.
verification::Case random_case(std::uint64_t index, double budget);
/// The same with each feature in many of the cases.
verification::Case featured_case(std::uint64_t index, double budget);

/// A workspace spec as a kernel that adds to dq_acc has it.
WorkspaceSpec spec_of(const Problem& problem, std::int64_t kN0);

/// The lengths of a case in host and device memory.
class CaseLengths {
 public:
  explicit CaseLengths(const verification::Case& c);

  SequenceLengths host() const;
  SequenceLengths device() const;

 private:
  struct Array {
    explicit Array(std::vector<std::int32_t> entries);
    std::vector<std::int32_t> host;
    verification::GuardedBuffer device;
  };
  SequenceLengths pointers(bool on_device) const;

  Problem problem_;
  Array seqstart_q_, seqstart_k_, logical_q_, logical_k_;
};

/// Rows of one side that are real tokens.
std::vector<verification::SequencePlace> real_rows(const verification::Case& c, SequenceSide side);

TensorRef ref_of(const verification::DeviceTensor& tensor);
/// With stride 0 along axes of size 1, as the executor makes them.
TensorRef broadcast_ref_of(const TensorView& view);

}  // namespace fmhax::portable::test
