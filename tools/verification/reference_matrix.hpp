/// @file The reference's plain matrices: one head of one sequence, out of a tensor and back into it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verification/dense_tensor.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// One head of one sequence as a contiguous [rows, columns] matrix.
template <typename Real>
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Real> data;

  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), data(static_cast<std::size_t>(row_count * column_count)) {}
  Real* row(std::int64_t i) { return data.data() + i * columns; }
  const Real* row(std::int64_t i) const { return data.data() + i * columns; }
};

template <typename Real>
Matrix<Real> gather(const DenseTensor& tensor, const SequencePlace& place, std::int64_t head) {
  Matrix<Real> m(place.length, tensor.hdim);
  for (std::int64_t i = 0; i < m.rows; ++i) {
    const double* from = tensor.row(place.batch_index, place.start + i, head);
    std::transform(from, from + m.columns, m.row(i), [](double x) { return static_cast<Real>(x); });
  }
  return m;
}

template <typename Real>
void scatter(const Matrix<Real>& m, const SequencePlace& place, std::int64_t head, DenseTensor& tensor) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    std::copy(m.row(i), m.row(i) + m.columns, tensor.row(place.batch_index, place.start + i, head));
  }
}

template <typename Real>
Real dot(const Real* a, const Real* b, std::int64_t count) {
  // Eight sums side by side keep the processor's adders busy; head dimensions are multiples of 8.
  constexpr std::int64_t kLanes = 8;
  Real partial[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  }
  Real sum = 0;
  for (const Real p : partial) sum += p;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename Real>
void add_scaled(Real* to, Real factor, const Real* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace fmhax::verification
