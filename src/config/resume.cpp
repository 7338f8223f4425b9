#include "config/resume.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hearth::config {

std::vector<Difference> differences(const RunConfig& before, const RunConfig& now) {
  std::vector<Difference> result;
  for (const Field& field : fields()) {
    Value old_value = field.value(before), new_value = field.value(now);
    if (old_value != new_value) result.push_back({&field, std::move(old_value), std::move(new_value)});
  }
  return result;
}

std::string describe(const Difference& d) {
  std::string text = fmt::format("{}: {} -> {}", d.field->name(), to_toml_value(d.before), to_toml_value(d.after));
  if (d.field->at_resume == AtResume::kNoEffect) text += " (no effect: the run has begun)";
  return text;
}

void refuse_changes(const std::vector<Difference>& differences, std::string_view checkpoint) {
  std::string refused;
  for (const Difference& d : differences) {
    if (d.field->at_resume == AtResume::kRefuse) refused += fmt::format("\n    {}", describe(d));
  }
  if (refused.empty()) return;
  throw user_error(fmt::format("the run cannot go on from {} with these changes:{}", checkpoint, refused),
                   "it would no longer be the same training",
                   "set them back; or start a new run with another job.dump_folder, or with --restart");
}

}  // namespace hearth::config
