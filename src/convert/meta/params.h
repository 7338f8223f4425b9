// SPDX-License-Identifier: Apache-2.0
// params.json of Meta's models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/description.h"

namespace hearth::convert {

// Reads everything except what only the weights' shapes say: the feed-forward's width and, if the file says -1, the
// vocabulary's size. Appends notes. Throws user_error naming `origin` for an unknown field.
Description parse_meta_params(std::string_view text, const std::string& origin, std::vector<std::string>& notes);

// The text of params.json. Throws user_error, which names what Meta's code cannot compute: other norms, other scalings
// of rotary embedding.
std::string format_meta_params(const Description& description);

}  // namespace hearth::convert
