// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "config/check.h"
#include "config/fields.h"
#include "convert/hugging_face/config.h"

namespace hearth::convert {

void require_allowed(const Description& description, const std::string& origin) {
  config::RunConfig config;
  config.model = description.model;
  config.training.seq_len = description.max_positions;
  for (const config::Field& field : config::fields()) {
    const bool is_read = field.section == "model" || field.name() == "training.seq_len";
    if (is_read && !field.limits.allow(field.value(config)))
      throw user_error(
          fmt::format("{}: {} would be {}", origin, field.name(), config::to_toml_value(field.value(config))),
          fmt::format("it may be {}", field.limits.text()), "correct the field in a copy of the file");
  }
  // Rules between keys: a list of another length, a scaling that divides by zero.
  config::LoadResult loaded;
  loaded.config = config;
  config::check(loaded, config::Purpose::kPlan);
  for (const config::Problem& problem : loaded.problems) {
    if (problem.key.starts_with("model."))
      throw user_error(fmt::format("{}: {}", origin, problem.what), "no run file may have it",
                       "correct the field in a copy of the file");
  }
}

}  // namespace hearth::convert
