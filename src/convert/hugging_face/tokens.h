// SPDX-License-Identifier: Apache-2.0
// The special tokens in config.json.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "convert/description.h"

namespace hearth::convert {

// Sets bos, eos and mask, whose vocabulary the description has already. `refuse` throws.
void read_tokens(const nlohmann::json& fields, Description& description,
                 const std::function<void(const std::string&)>& refuse);

}  // namespace hearth::convert
