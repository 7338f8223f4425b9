// Which parameters a run file means: "output", "layers.3", "layers.*.attention", "*norm*".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/parameters.h"

namespace hearth::plan {

// Whether `pattern` is the name, or its beginning up to a dot. In it, * stands for any number of any characters.
bool matches(std::string_view pattern, std::string_view name);

// For each parameter of the plan whether one of the patterns matches it. `key` ("checkpoint.fresh") is where they come
// from: throws user_error, naming it, for the patterns that match nothing.
std::vector<bool> matching_parameters(const std::vector<std::string>& patterns, const ParameterPlan& plan,
                                      std::string_view key);

// For each parameter whether it is trained: those that checkpoint.freeze matches are not. Throws user_error where none
// is.
std::vector<bool> trained_parameters(const std::vector<std::string>& freeze, const ParameterPlan& plan);

}  // namespace hearth::plan
