// SPDX-License-Identifier: Apache-2.0
#include "config/resume.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace hearth::config {

std::vector<Difference> differences(const RunConfig& before, const RunConfig& now) {
  std::vector<Difference> result;
  for (const Field& field : fields()) {
    const Value old_value = field.value(before), new_value = field.value(now);
    if (old_value != new_value)
      result.push_back({field.name(), field.at_resume, to_toml_value(old_value), to_toml_value(new_value)});
  }
  for (const Field& field : list_fields()) {
    const List& list = *find_list(field.section);
    const auto text = [&](const RunConfig& config, size_t item) {
      return item < list.size(config) ? to_toml_value(field.value(config, item)) : "none";
    };
    for (size_t item = 0; item < std::max(list.size(before), list.size(now)); ++item) {
      std::string was = text(before, item), is = text(now, item);
      if (was != is) result.push_back({field.name(item), field.at_resume, std::move(was), std::move(is)});
    }
  }
  return result;
}

std::string describe(const Difference& d) {
  std::string text = fmt::format("{}: {} -> {}", d.name, d.before, d.after);
  if (d.at_resume == AtResume::kNoEffect) text += " (no effect: the run has begun)";
  return text;
}

void refuse_changes(const std::vector<Difference>& differences, std::string_view checkpoint, std::string_view instead) {
  std::string refused;
  for (const Difference& d : differences) {
    if (d.at_resume == AtResume::kRefuse) refused += fmt::format("\n    {}", describe(d));
  }
  if (refused.empty()) return;
  throw user_error(fmt::format("the run cannot go on from {} with these changes:{}", checkpoint, refused),
                   "it would no longer be the same training", fmt::format("set them back; or {}", instead));
}

}  // namespace hearth::config
