// SPDX-License-Identifier: Apache-2.0
// What a model's blocks compute, besides their sizes: keys of [model], which the blocks of src/models read as they are.
// An option is a member here, a row in config/field_table.cpp, and code in the block.
#pragma once

#include <cstdint>

#include "config/choices.h"

namespace hearth::config {

// Where a block has its norms: on its branches' inputs, or on their outputs (OLMo 2).
enum class NormPlacement { kInputs, kOutputs };
constexpr auto choice_names(NormPlacement) { return choices("inputs", "outputs"); }
// What qk_norm norms as one row: each head, or all query heads together and all key heads together (OLMo 2).
enum class QkNormScope { kHead, kAllHeads };
constexpr auto choice_names(QkNormScope) { return choices("head", "all_heads"); }

struct BlockOptions {
  NormPlacement norm_placement = NormPlacement::kInputs;
  bool qkv_bias = false;  // q, k and v have biases
  bool qk_norm = false;   // queries and keys are normed before their rotation
  QkNormScope qk_norm_scope = QkNormScope::kHead;
  int64_t no_rope_layer_interval = 0;  // every n-th layer does not rotate queries and keys (SmolLM3); 0: all rotate
  bool operator==(const BlockOptions&) const = default;
};

}  // namespace hearth::config
