// "Did you mean ...?": the candidate that a mistyped name most likely stood for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

// Edits that turn `a` into `b`: insert, delete, replace, or swap two neighbours (optimal string alignment distance).
int64_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest edits, the first of equals; empty when even that one is nothing like `name` (more than
// a third of its letters differ, and it is not the beginning of one).
std::string nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace hearth
