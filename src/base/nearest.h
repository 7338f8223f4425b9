// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?": the most likely candidate for a mistyped name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

// Edits that turn `a` into `b`: insert, delete, replace, or swap two neighbours (optimal string alignment distance).
int64_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest edits, the first of equals. Empty if more than a third of the letters differ. A
// candidate that begins with a `name` of three letters or more counts as one edit.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace hearth
