#include "eigen_maps.hpp"
#include "formulas.hpp"

namespace fmhax::train {

void gelu_forward(GeluForward p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  const ConstRowMap x(p.x + tile.begin * p.width, tile.count * p.width);
  RowMap(p.y + tile.begin * p.width, tile.count * p.width) =
      0.5F * x * (1.0F + (kRootTwoOverPi * x * (1.0F + kGeluCubic * x.square())).tanh());
}

void gelu_backward(GeluBackward p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  Eigen::Array<float, 1, Eigen::Dynamic> tanh_u(p.width);
  for (std::int64_t t = tile.begin; t < tile.end(); ++t) {
    const ConstRowMap x(p.x + t * p.width, p.width);
    tanh_u = (kRootTwoOverPi * x * (1.0F + kGeluCubic * x.square())).tanh();
    RowMap(p.d + t * p.width, p.width) *=
        0.5F * (1.0F + tanh_u) +
        0.5F * x * (1.0F - tanh_u.square()) * (kRootTwoOverPi * (1.0F + 3.0F * kGeluCubic * x.square()));
  }
}

}  // namespace fmhax::train
