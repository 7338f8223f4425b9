// SPDX-License-Identifier: Apache-2.0
// params.json of Meta's models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/description.h"

namespace hearth::convert {

// Reads all but the width of the feed-forward and, where the file says -1, the vocabulary: the weights' shapes have
// these. Appends notes. Throws user_error naming `origin` for an unknown field.
Description parse_meta_params(std::string_view text, const std::string& origin, std::vector<std::string>& notes);

// The text of params.json. Throws user_error, which names what has no home: other norms, other scalings of rotary
// embedding than those fixed in Meta's code.
std::string format_meta_params(const Description& description);

}  // namespace hearth::convert
