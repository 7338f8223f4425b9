// SPDX-License-Identifier: Apache-2.0
#include "runfolder/run_checkpoints.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_folder.h"
#include "config/load.h"
#include "runfolder/names.h"

namespace hearth::runfolder {

using checkpoint::kManifestFile;
using checkpoint::kMetadataFile;
using checkpoint::list_step_folders;
using checkpoint::StepFolder;

namespace {

constexpr const char* kTorchtitanFolder = "checkpoint";  // of its runs' steps, unless they say otherwise

// The step of torchtitan's "step-100"; -1 for another name.
int64_t torchtitan_step(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const std::string_view digits = name.substr(kPrefix.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return -1;
  return name == fmt::format("step-{}", step) ? step : -1;
}

// The folder of the newest step of any program, or an empty path. torchtitan's names have no zeros in front, and a
// folder of its steps is whole where it has `.metadata`.
Path newest_step(const Path& checkpoints) {
  const std::vector<StepFolder> ours = list_step_folders(checkpoints);
  Path newest = ours.empty() ? Path() : ours.back().folder;
  int64_t most = ours.empty() ? -1 : ours.back().step;
  for (const std::string& name : checkpoint::names_in(checkpoints)) {
    const int64_t step = torchtitan_step(name);
    if (step <= most || !path_exists(checkpoints / name / kMetadataFile)) continue;
    most = step;
    newest = checkpoints / name;
  }
  return newest;
}

}  // namespace

Path checkpoint_folder_of(const Path& run) {
  std::string name = config::Checkpoint{}.folder;
  if (path_exists(run / kRunFile)) name = config::read_run(run / kRunFile, {}).config.checkpoint.folder;
  return join_path(run, name);
}

Path checkpoints_of(const Path& run) {
  const Path named = checkpoint_folder_of(run);
  for (const Path& folder : {named, run})
    if (!checkpoint::list_steps(folder).empty()) return folder;
  throw user_error(fmt::format("{} has no checkpoints", run.string()),
                   fmt::format("neither it nor {} has a step-... folder", named.string()),
                   "give the folder of a run that has saved");
}

std::optional<Path> checkpoint_in(const Path& folder) {
  if (path_exists(folder / kManifestFile) || path_exists(folder / kMetadataFile)) return folder;
  if (const auto name = checkpoint::parse_step_name(folder.filename().string());
      name && name->number == checkpoint::SaveNumber{})
    if (Path save = checkpoint::step_folder(folder.parent_path(), name->step); save != folder && path_exists(save))
      return save;
  for (const Path& checkpoints : {folder, checkpoint_folder_of(folder), folder / kTorchtitanFolder})
    if (Path newest = newest_step(checkpoints); !newest.empty()) return newest;
  return std::nullopt;
}

Path find_checkpoint(const Path& folder) {
  if (const std::optional<Path> found = checkpoint_in(folder)) return *found;
  const char* const fix = "give a folder such as RUN/checkpoints/step-00000100, or RUN itself for the newest";
  if (!path_exists(folder)) throw user_error(fmt::format("there is no folder {}", folder.string()), {}, fix);
  if (path_exists(folder / "config.json"))
    throw user_error(fmt::format("{} is not a checkpoint of Hearth's", folder.string()),
                     "it has a config.json, as the folders of Hugging Face have",
                     fmt::format("`hearth convert --to native {} FOLDER` makes one", shell_word(folder.string())));
  throw user_error(
      fmt::format("{} is not a checkpoint", folder.string()),
      fmt::format("it holds neither a {}, nor PyTorch's {}, nor a step-... folder", kManifestFile, kMetadataFile), fix);
}

checkpoint::KeepRules keep_rules(const config::Checkpoint& config) {
  checkpoint::KeepRules rules{.latest_k = config.keep_latest_k, .every = config.keep_every, .best = config.keep_best};
  for (const double step : config.extra_steps) rules.steps.insert(static_cast<int64_t>(step));
  return rules;
}

}  // namespace hearth::runfolder
