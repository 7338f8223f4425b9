// A collector for the problems that the rules of check.h find; only for its sources.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "config/check.h"

namespace hearth::config {

// Collects problems; each is reported at the first of its keys that was given.
class Rules {
 public:
  explicit Rules(LoadResult& loaded) : loaded_(loaded), num_typed_(loaded.problems.size()) {}

  void require(bool holds, std::initializer_list<std::string_view> keys, const std::string& what,
               const std::string& fix) {
    require(holds, std::vector<std::string_view>(keys), what, fix);
  }
  void require(bool holds, const std::vector<std::string_view>& keys, const std::string& what, const std::string& fix) {
    if (holds || std::any_of(keys.begin(), keys.end(), [this](auto key) { return has_problem(key); })) return;
    std::string_view at = keys.front();
    for (const std::string_view key : keys) {
      if (!loaded_.origin(key).given()) continue;
      at = key;
      break;
    }
    loaded_.problems.push_back({loaded_.where(at), loaded_.origin(at).line, what, fix, std::string(at)});
    loaded_.problems.back().is_rule = true;
  }

  bool given(std::string_view key) const { return loaded_.origin(key).given(); }

 private:
  bool has_problem(std::string_view key) const {
    return std::any_of(loaded_.problems.begin(), loaded_.problems.begin() + static_cast<std::ptrdiff_t>(num_typed_),
                       [key](const Problem& problem) { return problem.key == key; });
  }
  LoadResult& loaded_;
  size_t num_typed_;  // problems before the first rule
};

// Rejects given keys that nothing reads, by Field::applies_when.
void check_applies_when(Rules& rules, const RunConfig& config, bool is_training);
// Parts of check(): the update and its number types; and the decays that a rule of the learning rate has.
void check_optimizer(Rules& rules, const RunConfig& config);
void check_decay_type(Rules& rules, const LrScheduler& scheduler);
// Part of check(): traces and snapshots.
void check_profiling(Rules& rules, const RunConfig& config);

}  // namespace hearth::config
