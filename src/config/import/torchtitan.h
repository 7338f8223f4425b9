// SPDX-License-Identifier: Apache-2.0
// Advice for run files that were written for torchtitan: the keys that Hearth does not have.
#pragma once

#include <string_view>

namespace hearth::config {

// Advice about `section`.`key`, which Hearth does not have: "remove it: why", "write ...". An empty key means the whole
// section. The result is empty if torchtitan has no such key either.
std::string_view torchtitan_advice(std::string_view section, std::string_view key);

// Advice about a value of "model.norm_type" or "model.name" that torchtitan has and Hearth does not.
std::string_view torchtitan_value_advice(std::string_view name, std::string_view value);

}  // namespace hearth::config
