// SPDX-License-Identifier: Apache-2.0
// The fields of config.json about positions: rope_theta and rope_scaling of transformers 4, and rope_parameters of
// transformers 5. A file may have both styles, which must then say the same.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/config.h"
#include "config/families.h"

namespace hearth::convert {

// Sets the model's keys of positions, which have their defaults before: rope_theta, rope_type and what belongs to it,
// partial_rotary_factor, query_position_scale, rope_local_theta. `max_positions`: the longest sequence by config.json.
// Throws user_error, which names `origin`, for a field that would compute something else.
void read_rope(const nlohmann::json& fields, const config::HuggingFaceClass& type, int64_t max_positions,
               const std::string& origin, config::Model& model);

// Sets the fields of both styles, and max_position_embeddings where a style computes with it. Throws user_error for
// what the class cannot store.
void write_rope(nlohmann::ordered_json& fields, const config::HuggingFaceClass& type, const config::Model& model);

}  // namespace hearth::convert
