// SPDX-License-Identifier: Apache-2.0
// The format of LLaDA's code (GSAI-ML/LLaDA-8B-Base): the files of Hugging Face, with fields and names of weights that
// began as OLMo's. A model of masked_diffusion is stored so. Its layers are Llama's, without a causal mask.
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "convert/description.h"

namespace hearth::convert {

inline constexpr std::string_view kLladaType = "llada";  // model_type

// The text of config.json. `auto_map` names the code of the published model. Throws user_error for a model that the
// code does not compute.
std::string format_llada_config(const Description& description, DType dtype);

// Reads a config.json whose model_type is "llada". Throws user_error naming `origin` for a field whose value Hearth
// does not compute.
Description parse_llada_config(std::string_view text, const std::string& origin);

}  // namespace hearth::convert
