#include "verification/device_tensor.hpp"

#include <cstring>

#include "verification/half.hpp"

namespace fmhax::verification {
namespace {

constexpr std::byte kPoison{0xFF};

/// The view of a tensor whose data begin at null, and the elements of its allocation.
struct Placement {
  TensorView view;
  std::int64_t elements = 0;
};

Placement place(const TensorShape& shape) {
  const Layout& layout = shape.layout;
  const std::int64_t batch = layout.expands_batch ? 1 : shape.batch;
  const std::int64_t seqlen = layout.expands_seqlen ? 1 : shape.seqlen;
  const std::int64_t nhead = (layout.expands_nhead ? 1 : shape.nhead) + layout.extra_heads;
  const std::int64_t columns = shape.hdim + layout.extra_columns;
  Placement p;
  p.view = {nullptr, shape.dtype, shape.batch, shape.seqlen, shape.nhead, shape.hdim, 0, 0, 0, 1};
  p.elements = batch * seqlen * nhead * columns;
  switch (layout.order) {
    case Order::bshd:
      p.view.stride_nhead = columns;
      p.view.stride_seqlen = nhead * columns;
      p.view.stride_batch = seqlen * nhead * columns;
      break;
    case Order::sbhd:
      p.view.stride_nhead = columns;
      p.view.stride_batch = nhead * columns;
      p.view.stride_seqlen = batch * nhead * columns;
      break;
    case Order::bhsd:
      p.view.stride_seqlen = columns;
      p.view.stride_nhead = seqlen * columns;
      p.view.stride_batch = nhead * seqlen * columns;
      break;
  }
  if (layout.expands_batch) p.view.stride_batch = 0;
  if (layout.expands_seqlen) p.view.stride_seqlen = 0;
  if (layout.expands_nhead) p.view.stride_nhead = 0;
  return p;
}

}  // namespace

DeviceTensor::DeviceTensor(const TensorShape& shape) {
  const Placement placement = place(shape);
  view_ = placement.view;
  buffer_ = GuardedBuffer(static_cast<std::size_t>(placement.elements * element_size(shape.dtype)));
  view_.data = buffer_.data();
}

void DeviceTensor::upload(const DenseTensor& values, const std::vector<SequencePlace>& rows) {
  uploaded_.assign(buffer_.bytes(), kPoison);
  for (const SequencePlace& place : rows) {
    for (std::int64_t s = place.start; s < place.start + place.length; ++s) {
      for (std::int64_t h = 0; h < view_.nhead; ++h) {
        const double* from = values.row(place.batch_index, s, h);
        const std::int64_t index = element_index(place.batch_index, s, h);
        for (std::int64_t c = 0; c < view_.hdim; ++c) {
          store_element(view_.dtype, uploaded_.data(), index + c, from[c]);
        }
      }
    }
  }
  buffer_.upload(uploaded_);
}

void DeviceTensor::poison() { buffer_.poison(); }

DenseTensor DeviceTensor::download() const {
  const std::vector<std::byte> contents = buffer_.download();
  DenseTensor values(view_.batch, view_.seqlen, view_.nhead, view_.hdim);
  for (std::int64_t b = 0; b < view_.batch; ++b) {
    for (std::int64_t s = 0; s < view_.seqlen; ++s) {
      for (std::int64_t h = 0; h < view_.nhead; ++h) {
        double* to = values.row(b, s, h);
        const std::int64_t index = element_index(b, s, h);
        for (std::int64_t c = 0; c < view_.hdim; ++c) to[c] = load_element(view_.dtype, contents.data(), index + c);
      }
    }
  }
  return values;
}

std::string DeviceTensor::stray_write() const {
  if (!buffer_.guards_are_intact()) return "a guard zone was overwritten";
  std::vector<std::byte> contents = buffer_.download();
  const auto row_bytes = static_cast<std::size_t>(view_.hdim * element_size(view_.dtype));
  for (std::int64_t b = 0; b < view_.batch; ++b) {
    for (std::int64_t s = 0; s < view_.seqlen; ++s) {
      for (std::int64_t h = 0; h < view_.nhead; ++h) {
        std::memset(contents.data() + element_index(b, s, h) * element_size(view_.dtype), 0xFF, row_bytes);
      }
    }
  }
  for (const std::byte b : contents) {
    if (b != kPoison) return "bytes between the rows of the view were overwritten";
  }
  return {};
}

}  // namespace fmhax::verification
