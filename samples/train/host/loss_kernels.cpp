#include <cmath>

#include "eigen_maps.hpp"
#include "kernels.hpp"

namespace fmhax::train {

void cross_entropy(CrossEntropy p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  const float share = 1.0F / static_cast<float>(*p.target_count);
  for (std::int64_t t = tile.begin; t < tile.end(); ++t) {
    RowMap logits(p.logits + t * p.vocabulary, p.vocabulary);
    const std::int32_t target = p.targets[t];
    if (target == kNoTarget) {
      logits.setZero();
      p.row_loss[t] = 0;
      continue;
    }
    logits -= logits.maxCoeff();
    const float shifted_target = logits[target];
    logits = logits.exp();
    const float sum = logits.sum();
    p.row_loss[t] = std::log(sum) - shifted_target;
    logits *= share / sum;
    logits[target] -= share;
  }
}

}  // namespace fmhax::train
