// SPDX-License-Identifier: Apache-2.0
// The fields of config.json for mixtures of experts. Classes call the number of experts differently, and differ in
// which of the other fields they have (config::ExpertFields).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/families.h"

namespace hearth::convert {

// Sets the keys of experts from the fields. `refuse` is called with what is wrong, and does not return.
void read_experts(const nlohmann::json& fields, const config::HuggingFaceClass& type, config::Model& model,
                  const std::function<void(const std::string&)>& refuse);

// Throws user_error for what the class has no field for.
void write_experts(nlohmann::ordered_json& fields, const config::HuggingFaceClass& type, const config::Model& model);

}  // namespace hearth::convert
