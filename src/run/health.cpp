// SPDX-License-Identifier: Apache-2.0
#include "run/health.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::run {

using Json = nlohmann::ordered_json;

std::string format_health(const Health& health) {
  return Json{{"losses", health.losses},
              {"grad_norms", health.grad_norms},
              {"skipped", health.skipped},
              {"skipped_in_a_row", health.skipped_in_a_row},
              {"rewinds", health.rewinds}}
      .dump();
}

Health parse_health(std::string_view json, const std::string& origin) {
  try {
    const Json j = Json::parse(json);
    return {j.at("losses").get<std::vector<double>>(), j.at("grad_norms").get<std::vector<double>>(),
            j.at("skipped").get_ref<const int64_t&>(), j.at("skipped_in_a_row").get_ref<const int64_t&>(),
            j.at("rewinds").get_ref<const int64_t&>()};
  } catch (const nlohmann::json::exception& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.what());
  }
}

}  // namespace hearth::run
