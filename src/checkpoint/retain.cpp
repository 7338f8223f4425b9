// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retain.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/verify.h"

namespace hearth::checkpoint {
namespace {

// Whether `name` is a step's name with this suffix, or with the number of a start and this suffix; `base` becomes the
// name without them.
bool strip(std::string_view name, std::string_view suffix, std::string& base) {
  if (!name.ends_with(suffix)) return false;
  base = name.substr(0, name.size() - suffix.size());
  if (parse_step_name(base)) return true;  // a save's number, as in a store
  const size_t dot = base.rfind('.');
  if (dot != std::string::npos && base.find_first_not_of("0123456789", dot + 1) == std::string::npos) base.resize(dot);
  return parse_step_name(base).has_value();
}

// The loss in a checkpoint's manifest; nullopt: no manifest, a damaged one, or one without a loss.
std::optional<double> validation_loss(const Path& folder) {
  const Path file = folder / kManifestFile;
  if (!path_exists(file)) return std::nullopt;
  try {
    const Manifest manifest = parse_manifest(read_file(file), file);
    const auto found = manifest.metrics.find("validation_loss");
    return found == manifest.metrics.end() || std::isnan(found->second) ? std::nullopt : std::optional(found->second);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// hearth.json alone is the work of a request that came after its checkpoint was deleted.
bool is_whole_in_store(const Path& folder) {
  return path_exists(folder / kManifestFile) && list_folder(folder).size() > 1;
}

void remove_from_store(const Path& folder) {
  remove_file(folder / kManifestFile);  // without it, it is no checkpoint any more, whatever happens to the rest
  remove_tree(folder);
}

// The rules keep this step whatever else there is.
bool keeps_anyway(const KeepRules& rules, int64_t step) {
  return rules.steps.contains(step) || (rules.every > 0 && step % rules.every == 0);
}

// The checkpoints up to a step, of each step the newest, that decide about what is deleted. A store is asked about
// each, and a long training keeps many for good: these are left out where they are neither among the newest nor the
// best.
std::vector<StepFolder> those_that_decide(const std::vector<StepFolder>& all, const KeepRules& rules,
                                          int64_t last_step) {
  std::vector<StepFolder> found;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (at->step > last_step || (!found.empty() && found.back().step == at->step)) continue;
    const bool decides = std::ssize(found) < rules.latest_k || rules.best > 0 || !keeps_anyway(rules, at->step);
    if (decides && is_checkpoint(*at)) found.push_back(*at);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

NewestGood newest_that(const std::vector<StepFolder>& folders, Verification (*verify)(const Path&)) {
  NewestGood result;
  for (auto at = folders.rbegin(); at != folders.rend(); ++at) {
    const Path& folder = at->folder;
    std::string reason;
    if (!path_exists(folder / kManifestFile)) {
      reason = fmt::format("{} is missing", (folder / kManifestFile).string());
    } else {
      const std::vector<std::string> problems = verify(folder).problems;
      if (problems.empty()) {
        result.step = at->step;
        result.folder = folder;
        return result;
      }
      reason = problems[0];
      if (problems.size() > 1) reason += fmt::format(" (and {} more)", problems.size() - 1);
    }
    result.damaged.push_back({at->step, folder, reason});
  }
  return result;
}

}  // namespace

NewestGood newest_good(const Path& checkpoints) {
  return newest_that(list_step_folders(checkpoints), verify_checkpoint);
}

NewestGood newest_candidate(const Path& checkpoints, const std::vector<DamagedCheckpoint>& given_up) {
  std::vector<StepFolder> folders = list_step_folders(checkpoints);
  for (const DamagedCheckpoint& checkpoint : given_up)
    std::erase_if(folders, [&](const StepFolder& found) { return found.folder == checkpoint.folder; });
  return newest_that(folders, verify_frame);
}

std::vector<int64_t> steps_to_delete(const std::vector<StepFolder>& checkpoints, const KeepRules& rules) {
  std::vector<int64_t> steps;
  if (rules.latest_k <= 0) return steps;
  for (const StepFolder& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  std::set<int64_t> kept;
  for (size_t i = 0; i < steps.size(); ++i)
    if (std::ssize(steps) - static_cast<int64_t>(i) <= rules.latest_k || keeps_anyway(rules, steps[i]))
      kept.insert(steps[i]);
  if (rules.best > 0) {
    std::vector<std::pair<double, int64_t>> losses;
    for (const StepFolder& checkpoint : checkpoints)
      if (const auto loss = validation_loss(checkpoint.folder)) losses.emplace_back(*loss, checkpoint.step);
    std::sort(losses.begin(), losses.end());
    losses.resize(std::min(losses.size(), static_cast<size_t>(rules.best)));
    for (const auto& [loss, step] : losses) kept.insert(step);
  }
  std::erase_if(steps, [&](int64_t step) { return kept.contains(step); });
  return steps;
}

std::vector<int64_t> prune(const Path& checkpoints, const KeepRules& rules, int64_t verified_step) {
  if (rules.latest_k <= 0) return {};  // all are kept
  const std::vector<StepFolder> all = list_all_step_folders(checkpoints);
  std::vector<int64_t> deleted = steps_to_delete(those_that_decide(all, rules, verified_step), rules);
  std::erase(deleted, verified_step);
  const std::set<int64_t> doomed_steps(deleted.begin(), deleted.end());
  for (const StepFolder& found : all) {
    if (!doomed_steps.contains(found.step)) continue;
    if (is_object(checkpoints)) {
      remove_from_store(found.folder);
      continue;
    }
    const Path doomed = found.folder.native() + kDeletedSuffix;
    remove_tree(doomed);
    rename_path(found.folder, doomed);
    remove_tree(doomed);
  }
  return deleted;
}

void remove_older_saves(const Path& newest) {
  const std::optional<StepName> name = parse_step_name(newest.filename().string());
  if (!is_object(newest) || !name) return;
  for (const StepFolder& other : list_all_step_folders(newest.parent_path()))
    if (other.step == name->step && other.number < name->number) remove_from_store(other.folder);
}

std::vector<std::string> remove_leftovers(const Path& checkpoints, std::vector<Error>* refusals) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(checkpoints)) {
    std::string base;
    if (is_object(checkpoints)) {
      if (!parse_step_name(name) || is_whole_in_store(checkpoints / name)) continue;
      try {
        remove_tree(checkpoints / name);
      } catch (const Error& error) {
        if (refusals == nullptr || error.code() == ExitCode::kBug) throw;
        refusals->push_back(error);
        continue;
      }
    } else if (strip(name, kTemporarySuffix, base) || strip(name, kDeletedSuffix, base)) {
      // Renamed first: a start that was replaced and still writes there cannot give it a checkpoint's name any more.
      const Path doomed = checkpoints / (base + kDeletedSuffix);
      if (name != doomed.filename()) {
        remove_tree(doomed);
        rename_path(checkpoints / name, doomed);
      }
      remove_tree(doomed);
    } else if (strip(name, kReplacedSuffix, base)) {
      if (path_exists(checkpoints / base)) {
        remove_tree(checkpoints / name);
      } else {
        rename_path(checkpoints / name, checkpoints / base);
      }
    } else {
      continue;
    }
    found.push_back(name);
  }
  return found;
}

}  // namespace hearth::checkpoint
