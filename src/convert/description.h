// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about its model, besides the weights.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/config.h"

namespace hearth::convert {

struct Description {
  // Every key that decides what the weights compute. model.rope_pairs is the order of the rows of queries and keys in
  // the files.
  config::Model model;
  config::ObjectiveKind objective = config::ObjectiveKind::kCausalLm;
  bool shift_logits = false;  // of masked_diffusion: a position's logits predict the next token
  int64_t max_positions = 0;  // the longest sequence it was made for; 0: not known
  std::optional<int64_t> bos;
  std::optional<int64_t> mask;  // the token that takes a hidden token's place
  std::vector<int64_t> eos;     // several tokens may end a text
  // Hugging Face's model_type of the model of text and pictures, or sound, that this is the text model of ("mistral3").
  // Empty: the files have this model alone.
  std::string tower_of;
  int64_t prediction_layers = 0;  // of its files, behind the model's: they predict tokens beyond the next
};

// What the keys of a run say about its model.
Description description_of(const config::RunConfig& run);

// The user_error for a key that a format cannot store. `format`: its name, such as "Meta".
Error no_home(const std::string& key, std::string_view format, std::string why, std::string fix);
// The keys of [model] that make the model differ from the first Llamas, with their values. `homes`: the keys that a
// format can store, such as "model.qk_norm".
std::vector<std::string> beyond_llama(const config::Model& model, std::initializer_list<std::string_view> homes);
// Throws no_home() if there is one.
void require_llama(const config::Model& model, std::string_view format, std::initializer_list<std::string_view> homes);
// The same for a format that can store nothing else: neither a head width other than dim / n_heads nor another
// objective.
void require_plain_llama(const Description& description, std::string_view format);

}  // namespace hearth::convert
