// Run files that were written for torchtitan: the keys that Hearth does not have, and what to do about each.
#pragma once

#include <string_view>

namespace hearth::config {

// What to do about `section`.`key`, which Hearth does not have: "remove it: why", "write ...". An empty key asks about
// the whole section. Empty: torchtitan has no such key either.
std::string_view torchtitan_advice(std::string_view section, std::string_view key);

// The same about a value that torchtitan's key "model.norm_type" has and Hearth's has not.
std::string_view torchtitan_value_advice(std::string_view name, std::string_view value);

}  // namespace hearth::config
