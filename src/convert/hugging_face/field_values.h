// SPDX-License-Identifier: Apache-2.0
// Values of a config.json; Json is nlohmann::json. `refuse(what)` is called for another value, and does not return.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/families.h"

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

// Whether a value is in a list. A field of layers has a list of such values.
template <class Json>
bool is_allowed(const Json& value, const Json& allowed, bool is_of_layers) {
  const auto is_one = [&](const Json& one) { return std::find(allowed.begin(), allowed.end(), one) != allowed.end(); };
  return is_of_layers && value.is_array() ? std::all_of(value.begin(), value.end(), is_one) : is_one(value);
}

// Whether a class with one value of this field takes a text, or null, for it.
template <class Json>
bool means_the_only_value(const config::HuggingFaceClass& type, const std::string& name, const Json& value) {
  for (const config::Setting& field : type.reads) {
    if (field.key != name) continue;
    const auto& texts = std::get<std::vector<std::string>>(field.value);
    return value.is_null() || std::any_of(texts.begin(), texts.end(), [&](const auto& text) { return value == text; });
  }
  return false;
}

// Whether a quantization_config says what the class reads: experts of 4 bits (stacked.h). Other weights are as
// elsewhere.
template <class Json>
bool is_mxfp4(const config::HuggingFaceClass& type, const Json& value) {
  if (!type.experts.may_be_mxfp4 || !value.is_object() || value.value("quant_method", Json()) != "mxfp4") return false;
  for (const auto& [name, setting] : value.items())
    if (name != "quant_method" && name != "modules_to_not_convert" && name != "dequantize") return false;
  return true;
}

}  // namespace hearth::convert
