// SPDX-License-Identifier: Apache-2.0
// Part of check(): the section [profiling].
#include "base/file.h"
#include "config/derived.h"
#include "config/fields.h"
#include "config/rules.h"

namespace hearth::config {

void check_own_folder(Rules& rules, const RunConfig& c, std::string_view key, const std::string& given,
                      const std::string& why_disk, std::string_view example) {
  const Path run = normal_path(c.run_folder()), folder = normal_path(join_path(run, given));
  const std::string what = fmt::format("{} = {}", key, to_toml_value(given));
  const auto same = [](const Path& a, const Path& b) { return a / "" == b / ""; };
  rules.require(!is_object(folder), {key}, what + " is in a store", why_disk);
  rules.require(!same(folder, run) && !same(folder, normal_path(c.checkpoint_folder())), {key},
                what + " is a folder with other files of the run",
                fmt::format("give it a folder of its own, such as \"{}\"", example));
}

namespace {

void check_profile_folder(Rules& rules, const RunConfig& c, const std::string& key, const std::string& given) {
  check_own_folder(rules, c, key, given, "profiles are written to a disk: give a folder on one", "profile_traces");
  const Path folder = normal_path(join_path(c.run_folder(), given));
  rules.require(is_object(folder) || !path_exists(folder) || folder_exists(folder), {key},
                fmt::format("{} = {}: {} is not a folder", key, to_toml_value(given), folder.string()),
                "give the name of a folder");
}

// Steps of the run; 0: only the data say it, or the keys are wrong.
int64_t known_steps(const RunConfig& c) {
  const bool whole = c.training.seq_len > 0 && global_batch_size(c) > 0;
  return whole && (c.training.steps > 0 || c.training.tokens > 0) ? total_steps(c, 0) : 0;
}

}  // namespace

void check_profiling(Rules& rules, const RunConfig& c) {
  const Profiling& p = c.profiling;
  if (!p.enable_profiling && !p.enable_memory_snapshot) return;
  if (p.enable_profiling) {
    rules.require(p.profiler_active <= p.profile_freq, "profiling.profiler_active", "is more than",
                  "profiling.profile_freq",
                  "a trace shows the last profiler_active of every profile_freq steps: give at most that many");
    check_profile_folder(rules, c, "profiling.save_traces_folder", p.save_traces_folder);
  }
  if (p.enable_memory_snapshot)
    check_profile_folder(rules, c, "profiling.save_memory_snapshot_folder", p.save_memory_snapshot_folder);
  const int64_t steps = known_steps(c);
  rules.require(
      steps == 0 || p.profile_freq <= steps, {"profiling.profile_freq", "training.steps", "training.tokens"},
      fmt::format("profiling.profile_freq = {} is more than the run's {} steps", p.profile_freq, steps),
      "a trace or snapshot comes after each profile_freq steps, and none would be written: give at most that many");
}

}  // namespace hearth::config
