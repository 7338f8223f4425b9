// config.json of Hugging Face. A model is known by its model_type, never by its keys: twelve types have Llama's keys
// and compute other things. Every field is checked, and one that could change the computation is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "convert/description.h"

namespace hearth::convert {

// Reads llama, mistral and olmo. Appends notes for the console. Throws user_error naming `origin` for any model that
// Hearth does not compute, and damaged() for text that is not JSON.
Description parse_hugging_face_config(std::string_view text, const std::string& origin,
                                      std::vector<std::string>& notes);

// The text of config.json. Rotary embedding is written in both styles, of transformers 4 and 5. Throws user_error,
// which names what has no home: layernorm, rmsnorm_neox, spikes.
std::string format_hugging_face_config(const Description& description, DType dtype);
std::string format_generation_config(const Description& description);

}  // namespace hearth::convert
