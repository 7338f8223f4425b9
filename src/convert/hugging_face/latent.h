// SPDX-License-Identifier: Apache-2.0
// The fields of latent attention in config.json.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/families.h"

namespace hearth::convert {

// The field that every class of latent attention has, and the one whose null says that queries have no latent.
inline constexpr const char *kLatent = "kv_lora_rank", *kQueryLatent = "q_lora_rank";

// Checks the fields that follow from others, where the class has latent attention; else that the file lacks them.
// `refuse` throws.
void check_latent_fields(const nlohmann::json& fields, const config::HuggingFaceClass& type, const config::Model& model,
                         const std::function<void(const std::string&)>& refuse);

}  // namespace hearth::convert
