// SPDX-License-Identifier: Apache-2.0
// Reads a small JSON file, such as a model's config.json, as a tree.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hearth::formats {

// Throws damaged(), with `origin` and the place of the mistake, if `text` is not one JSON object of at most 4 MiB.
nlohmann::json parse_json_object(std::string_view text, const std::string& origin);

}  // namespace hearth::formats
