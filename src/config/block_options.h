// What a model's blocks compute, besides their sizes: keys of [model], which the blocks of src/models read as they are.
// An option is a member here, a row in config/field_table.cpp, and code in the block.
#pragma once

namespace hearth::config {

struct BlockOptions {
  bool qkv_bias = false;  // q, k and v have biases
  bool qk_norm = false;   // every head of q and k is normed before its rotation
  bool operator==(const BlockOptions&) const = default;
};

}  // namespace hearth::config
