#include "eigen_maps.hpp"
#include "kernels.hpp"

namespace fmhax::train {

void embedding_forward(EmbeddingForward p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  for (std::int64_t t = tile.begin; t < tile.end(); ++t) {
    RowMap(p.x + t * p.width, p.width) = ConstRowMap(p.token_table + p.tokens[t] * p.width, p.width) +
                                         ConstRowMap(p.position_table + p.positions[t] * p.width, p.width);
  }
}

void embedding_backward(EmbeddingBackward p) {
  // A block owns some columns of both tables and visits all tokens in order: no two blocks add to one element.
  const Tile columns(hiphost::block_idx().x, p.width, kColumnTile);
  for (std::int64_t i = 0; i < p.longest; ++i) {
    RowMap(p.d_position_table + i * p.width + columns.begin, columns.count).setZero();
  }
  for (std::int64_t t = 0; t < p.rows; ++t) {
    const ConstRowMap dx(p.dx + t * p.width + columns.begin, columns.count);
    RowMap(p.d_token_table + p.tokens[t] * p.width + columns.begin, columns.count) += dx;
    RowMap(p.d_position_table + p.positions[t] * p.width + columns.begin, columns.count) += dx;
  }
}

}  // namespace fmhax::train
