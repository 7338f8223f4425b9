// SPDX-License-Identifier: Apache-2.0
#include "convert/description.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/families.h"
#include "models/rope.h"

namespace hearth::convert {

Description description_of(const config::RunConfig& run) {
  Description d;
  d.model = run.model;
  d.objective = run.objective.kind;
  d.shift_logits = run.objective.shift_logits;
  if (run.objective.mask_id >= 0) d.mask = run.objective.mask_id;
  d.max_positions = run.training.seq_len;
  return d;
}

Error no_home(const std::string& key, std::string_view format, std::string why, std::string fix) {
  return user_error(fmt::format("{} has no home in {}'s format", key, format), std::move(why), std::move(fix));
}

std::vector<std::string> beyond_llama(const config::Model& model, std::initializer_list<std::string_view> homes) {
  std::vector<std::string> found = config::differences(config::find_family("llama"), model);
  std::erase_if(found, [&](const std::string& text) {
    const std::string_view key = std::string_view(text).substr(0, text.find(' '));
    return std::find(homes.begin(), homes.end(), key) != homes.end();
  });
  return found;
}

void require_llama(const config::Model& model, std::string_view format, std::initializer_list<std::string_view> homes) {
  if (const std::vector<std::string> beyond = beyond_llama(model, homes); !beyond.empty()) {
    throw no_home(beyond.front(), format, "it has the layers of the first Llamas",
                  "write Hugging Face's format, or keep the model native");
  }
  const config::RopeType rope = models::rope_of(model).type;
  if (rope != config::RopeType::kDefault && rope != config::RopeType::kLlama3)
    throw no_home(fmt::format("model.rope_type = \"{}\"", config::name_of(rope)), format,
                  "its rotary frequencies are scaled as Llama 3.1's, or not at all",
                  "write Hugging Face's format, or keep the model native");
}

void require_plain_llama(const Description& description, std::string_view format) {
  require_llama(description.model, format, {"model.sliding_window"});  // which stays behind with a note
  if (description.model.head_dim > 0)
    throw no_home("model.head_dim", format, "it has heads of dim / n_heads elements", "write Hugging Face's format");
  if (description.objective != config::ObjectiveKind::kCausalLm)
    throw no_home(fmt::format("objective.kind = \"{}\"", config::name_of(description.objective)), format,
                  "its Llama is a causal model of text", "keep the model native");
}

}  // namespace hearth::convert
