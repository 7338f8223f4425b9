// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/layers.h"

#include <algorithm>

#include "config/derived.h"

namespace hearth::convert {

void set_layer_types(config::Model& m, const std::vector<bool>& windowed) {
  const auto next_full = [&](int64_t begin) {
    return std::find(windowed.begin() + begin, windowed.end(), false) - windowed.begin();
  };
  const int64_t first = next_full(0);
  if (first == m.n_layers) return;
  for (const bool is_last : {true, false}) {
    config::Model regular = m;
    regular.full_attention_interval = is_last ? first + 1 : next_full(first + 1) - first;
    if (!is_last) regular.first_full_attention_layer = first;
    bool is_regular = first < regular.full_attention_interval;
    for (int64_t layer = 0; layer < m.n_layers; ++layer)
      is_regular = is_regular && windowed[static_cast<size_t>(layer)] == (window_of_layer(regular, layer) > 0);
    if (!is_regular) continue;
    m = regular;
    return;
  }
  for (const bool is_windowed : windowed)
    m.layer_types.emplace_back(is_windowed ? config::kSlidingAttention : config::kFullAttention);
}

}  // namespace hearth::convert
