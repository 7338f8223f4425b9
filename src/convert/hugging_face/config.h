// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face. A model is known by its model_type, never by its keys: twelve types have Llama's keys
// and compute other things. Every field is checked, and one that could change the computation is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "convert/description.h"

namespace hearth::convert {

// What a field does: nothing; it is read; it must have one of a few values; or the field is not known.
enum class FieldEffect { kNone, kRead, kFixed, kUnknown };
struct FieldRule {
  FieldEffect effect;
  std::string_view values;  // the allowed ones of kFixed, as a list in JSON; null is always allowed
};
FieldRule hugging_face_field(std::string_view name);

// Reads the model types of src/models/*/family.toml. An attention window becomes model.sliding_window, and limits
// max_positions. A model of text and pictures has its text model in text_config. `is_causal` = false becomes the
// objective masked_lm; LLaDA's model_type is masked_diffusion. Appends notes for the console. Throws user_error naming
// `origin` for any model that Hearth does not compute, and damaged() for text that is not JSON.
Description parse_hugging_face_config(std::string_view text, const std::string& origin,
                                      std::vector<std::string>& notes);

// Trinity's field: every n-th layer has no window.
inline constexpr const char* kGlobalInterval = "global_attn_every_n_layers";

// Throws user_error naming `origin` for a value that no run file may have: no command would open the checkpoint.
void require_allowed(const Description& description, const std::string& origin);

// The text of config.json; of a model of masked_diffusion LLaDA's (llada.h). Rotary embedding is written in both
// styles, of transformers 4 and 5. Throws user_error, which names what Hugging Face's formats cannot store: layernorm,
// rmsnorm_neox, spikes.
std::string format_hugging_face_config(const Description& description, DType dtype);
std::string format_generation_config(const Description& description);

}  // namespace hearth::convert
