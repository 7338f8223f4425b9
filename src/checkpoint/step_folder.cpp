// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/step_folder.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "checkpoint/manifest.h"

namespace hearth::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step-";

// Digits from the begin of `text`, which then begins after them; -1 without any.
int64_t take_number(std::string_view& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// On a disk a save replaces the folder without a number, so this one is the newest. A store's saves all have numbers,
// and a folder without one is older: it was copied there.
bool is_newer(const StepFolder& a, const StepFolder& b) {
  const bool newest_has_none = !is_object(a.folder);
  const auto rank = [&](const StepFolder& folder) {
    return std::tuple(newest_has_none && folder.number == SaveNumber{}, folder.number);
  };
  return rank(a) > rank(b);
}

}  // namespace

std::string step_name_of(int64_t step) { return fmt::format("step-{:08}", step); }

std::optional<StepName> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::string_view rest = name.substr(kStepPrefix.size());
  StepName found{.step = take_number(rest), .number = {}};
  std::string written = step_name_of(found.step);
  for (int64_t* number : {&found.number.start, &found.number.save}) {
    if (rest.empty()) break;
    if (rest.front() != '.') return std::nullopt;
    rest.remove_prefix(1);
    *number = take_number(rest);
    written += fmt::format(".{}", *number);
  }
  const bool has_one_number = std::count(name.begin(), name.end(), '.') == 1;
  if (found.step < 0 || has_one_number || written != name) return std::nullopt;
  return found;
}

std::vector<std::string> names_in(const Path& checkpoints) {
  return path_exists(checkpoints) ? list_folder(checkpoints) : std::vector<std::string>();
}

bool is_checkpoint(const StepFolder& found) {
  return !is_object(found.folder) || path_exists(found.folder / kManifestFile);
}

std::vector<StepFolder> list_all_step_folders(const Path& checkpoints) {
  std::vector<StepFolder> found;
  if (!path_exists(checkpoints)) return found;
  for (const std::string& name : list_folders(checkpoints))
    if (const std::optional<StepName> parsed = parse_step_name(name))
      found.push_back({parsed->step, parsed->number, checkpoints / name});
  std::sort(found.begin(), found.end(), [](const StepFolder& a, const StepFolder& b) {
    return a.step != b.step ? a.step < b.step : is_newer(b, a);
  });
  return found;
}

std::vector<StepFolder> list_step_folders(const Path& checkpoints) {
  std::vector<StepFolder> found = list_all_step_folders(checkpoints);
  std::erase_if(found, [](const StepFolder& folder) { return !is_checkpoint(folder); });
  return found;
}

std::vector<StepFolder> list_checkpoints(const Path& checkpoints) {
  std::vector<StepFolder> newest;
  for (StepFolder& folder : list_step_folders(checkpoints)) {
    if (!newest.empty() && newest.back().step == folder.step) newest.pop_back();
    newest.push_back(std::move(folder));
  }
  return newest;
}

std::vector<int64_t> list_steps(const Path& checkpoints) {
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_checkpoints(checkpoints)) steps.push_back(folder.step);
  return steps;
}

Path step_folder(const Path& checkpoints, int64_t step) {
  Path plain = checkpoints / step_name_of(step);
  if (!is_object(checkpoints) && path_exists(plain)) return plain;
  const std::vector<StepFolder> folders = list_all_step_folders(checkpoints);
  const auto found = std::find_if(folders.rbegin(), folders.rend(), [step](const StepFolder& folder) {
    return folder.step == step && is_checkpoint(folder);
  });
  return found == folders.rend() ? plain : found->folder;
}

Path temporary_folder(const Path& checkpoints, int64_t step, SaveNumber number) {
  const std::string name = step_name_of(step);
  if (is_object(checkpoints)) return checkpoints / fmt::format("{}.{}.{}", name, number.start, number.save);
  return checkpoints / (name + (number.start > 0 ? fmt::format(".{}", number.start) : "") + kTemporarySuffix);
}

Path final_folder_of(const Path& temporary) {
  if (is_object(temporary)) return temporary;
  const std::string name = temporary.filename().string();
  return temporary.parent_path() / name.substr(0, name.find('.'));
}

int64_t unused_start(const Path& checkpoints, int64_t least) {
  for (const StepFolder& folder : list_all_step_folders(checkpoints)) least = std::max(least, folder.number.start + 1);
  return least;
}

}  // namespace hearth::checkpoint
