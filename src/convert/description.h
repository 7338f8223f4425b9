// What a checkpoint says about its model, besides the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace hearth::convert {

struct Description {
  // Every key that decides what the weights compute. model.rope_pairs is the order of the rows of queries and keys in
  // the files.
  config::Model model;
  config::ObjectiveKind objective = config::ObjectiveKind::kCausalLm;
  int64_t max_positions = 0;  // the longest sequence it was made for; 0: not known
  std::optional<int64_t> bos;
  std::optional<int64_t> mask;  // the token that hides another one
  std::vector<int64_t> eos;     // several tokens may end a text
};

// Elements of a head.
inline int64_t head_width(const config::Model& model) {
  return model.head_dim > 0 ? model.head_dim : model.dim / model.n_heads;
}

// Throws user_error for what the first Llamas did not have: other norms, biases, norms of heads, widths of their own,
// other objectives. `format`: the name of the format that has no home for it, such as "Meta".
void require_plain_llama(const Description& description, std::string_view format);

}  // namespace hearth::convert
