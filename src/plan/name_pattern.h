// SPDX-License-Identifier: Apache-2.0
// Patterns of parameter names in run files: "output", "layers.3", "layers.*.attention", "*norm*".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/parameters.h"

namespace hearth::plan {

// Whether `pattern` is the name, or its beginning up to a dot. A * matches any number of any characters.
bool matches(std::string_view pattern, std::string_view name);

// For each parameter of the plan whether one of the patterns matches it. `key` ("checkpoint.fresh") is the patterns'
// key of the run file. Throws user_error about it if a pattern matches nothing.
std::vector<bool> matching_parameters(const std::vector<std::string>& patterns, const ParameterPlan& plan,
                                      std::string_view key);

// For each parameter whether it is trained: checkpoint.freeze does not match it. Throws user_error if none is left.
std::vector<bool> trained_parameters(const std::vector<std::string>& freeze, const ParameterPlan& plan);

}  // namespace hearth::plan
