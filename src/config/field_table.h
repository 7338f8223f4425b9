// The table behind config/fields.h: every key with its place in RunConfig, unit, help and limits. A new key is added
// here and in config.h, nowhere else.
#pragma once

#include <vector>

#include "config/fields.h"

namespace hearth::config {

// In the order of docs/config.md.
const std::vector<Field>& field_table();
// The keys of lists: one row for all tables of a list.
const std::vector<Field>& list_field_table();

}  // namespace hearth::config
