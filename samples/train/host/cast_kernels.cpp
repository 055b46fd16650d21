#include "eigen_maps.hpp"
#include "formulas.hpp"

namespace fmhax::train {

void narrow(Narrow p) {
  const Tile tile(hiphost::block_idx().x, p.count, kElementTile);
  for (std::int64_t i = tile.begin; i < tile.end(); ++i) p.to[i] = narrow_bf16(p.from[i]);
}

void widen(Widen p) {
  const Tile tile(hiphost::block_idx().x, p.count, kElementTile);
  for (std::int64_t i = tile.begin; i < tile.end(); ++i) p.to[i] = widen_bf16(p.from[i]);
}

}  // namespace fmhax::train
