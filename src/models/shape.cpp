// SPDX-License-Identifier: Apache-2.0
#include "models/shape.h"

#include <algorithm>
#include <cmath>

namespace hearth::models {

int64_t ModelShape::F() const {
  int64_t widest = 0;
  for (const Layer& layer : layers) widest = std::max(widest, layer.F);
  return widest;
}

ModelShape ModelShape::layer(int64_t index) const {
  ModelShape one = *this;
  one.layers = {layers[static_cast<size_t>(index)]};
  one.stage = {stage.first + index, stage.total > 0 ? stage.total : L()};
  return one;
}

double ModelShape::score_scale(const Layer& layer) const {
  const double factor = rope_of(layer).score_factor;
  if (factor == 1) return attention_multiplier;
  return factor * (attention_multiplier > 0 ? attention_multiplier : 1 / std::sqrt(static_cast<double>(K)));
}

LayerKinds layer_kinds(const ModelShape& shape) {
  LayerKinds found;
  for (const Layer& layer : shape.layers) {
    const auto kind = std::find(found.kinds.begin(), found.kinds.end(), layer);
    found.of_layer.push_back(static_cast<size_t>(kind - found.kinds.begin()));
    if (kind == found.kinds.end()) found.kinds.push_back(layer);
  }
  return found;
}

}  // namespace hearth::models
