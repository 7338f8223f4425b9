// SPDX-License-Identifier: Apache-2.0
// Numbers of a config.json; Json is nlohmann::json. `refuse(what)` is called for another value, and does not return.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace hearth::convert {

// A whole number from `least` to 2^31.
template <class Json, class Refuse>
int64_t size_in(const Json& value, const std::string& name, int64_t least, const Refuse& refuse) {
  if (!value.is_number_integer() || value < least || value > int64_t{1} << 31)
    refuse(fmt::format("{} = {} is not a size", name, value.dump()));
  return value.template get<int64_t>();
}

// A finite number above 0.
template <class Json, class Refuse>
double positive_in(const Json& value, const std::string& name, const Refuse& refuse) {
  if (!value.is_number() || !std::isfinite(value.template get<double>()) || value.template get<double>() <= 0)
    refuse(fmt::format("{} = {} is not a positive number", name, value.dump()));
  return value.template get<double>();
}

}  // namespace hearth::convert
