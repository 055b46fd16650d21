#include "eigen_maps.hpp"
#include "kernels.hpp"

namespace fmhax::train {

void linear_forward(LinearForward p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  const ConstMatrixMap x(p.x + tile.begin * p.inputs, tile.count, p.inputs);
  MatrixMap y(p.y + tile.begin * p.outputs, tile.count, p.outputs);
  if (p.w_is_transposed) {
    y.noalias() = x * ConstMatrixMap(p.w, p.outputs, p.inputs).transpose();
  } else {
    y.noalias() = x * ConstMatrixMap(p.w, p.inputs, p.outputs);
  }
}

void linear_weight_gradient(LinearWeightGradient p) {
  const Tile columns(hiphost::block_idx().x, p.a_width, kColumnTile);
  const ConstMatrixMap a(p.a, p.rows, p.a_width);
  const ConstMatrixMap b(p.b, p.rows, p.b_width);
  MatrixMap dw(p.dw + columns.begin * p.b_width, columns.count, p.b_width);
  dw.noalias() = a.middleCols(columns.begin, columns.count).transpose() * b;
}

}  // namespace fmhax::train
