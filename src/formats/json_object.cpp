// SPDX-License-Identifier: Apache-2.0
#include "formats/json_object.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::formats {
namespace {

constexpr size_t kMostObjectBytes = size_t{4} << 20;

// Without the library's name and number of the error: "[json.exception.parse_error.101] parse error at line 1 ...".
std::string without_number(std::string_view message) {
  const size_t end = message.find("] ");
  return std::string(end == std::string_view::npos ? message : message.substr(end + 2));
}

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const std::string& origin) {
  if (text.size() > kMostObjectBytes)
    throw damaged(fmt::format("{} has {} bytes", origin, text.size()),
                  fmt::format("{} are the most allowed", kMostObjectBytes));
  nlohmann::json found;
  try {
    found = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw damaged(fmt::format("{} is not JSON that can be read", origin), without_number(e.what()));
  }
  if (!found.is_object()) throw damaged(fmt::format("{} is not a JSON object", origin));
  return found;
}

}  // namespace hearth::formats
