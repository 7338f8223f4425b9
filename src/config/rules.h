// SPDX-License-Identifier: Apache-2.0
// A collector for the problems that the rules of check.h find; only for its sources.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "config/check.h"

namespace hearth::config {

inline constexpr int64_t kMaxHeadWidth = 256;  // of the attention kernels; src/kernels/attention.cu has the lowest

// Collects problems; each is reported at the first of its keys that was given.
class Rules {
 public:
  explicit Rules(LoadResult& loaded) : loaded_(loaded), num_typed_(loaded.problems.size()) {}

  void require(bool holds, const std::vector<std::string_view>& keys, const std::string& what, const std::string& fix) {
    if (holds || std::any_of(keys.begin(), keys.end(), [this](auto key) { return has_problem(key); })) return;
    const auto first = std::find_if(keys.begin(), keys.end(), [this](auto key) { return given(key); });
    const std::string_view at = first == keys.end() ? keys.front() : *first;
    loaded_.problems.push_back({loaded_.where(at), loaded_.origin(at).line, what, fix, std::string(at)});
    loaded_.problems.back().is_rule = true;
  }

  // The same about two keys and their values: "training.dtype = \"float64\" RELATION training.device = \"cuda\"".
  void require(bool holds, std::string_view key, std::string_view relation, std::string_view other,
               const std::string& fix) {
    require(holds, {key, other}, fmt::format("{} {} {}", with_value(key), relation, with_value(other)), fix);
  }

  bool given(std::string_view key) const { return loaded_.origin(key).given(); }

 private:
  bool has_problem(std::string_view key) const {
    return std::any_of(loaded_.problems.begin(), loaded_.problems.begin() + static_cast<std::ptrdiff_t>(num_typed_),
                       [key](const Problem& problem) { return problem.key == key; });
  }
  std::string with_value(std::string_view key) const {
    const Value value = find_field(key)->value(loaded_.config);
    const auto* number = std::get_if<double>(&value);
    return fmt::format("{} = {}", key, number != nullptr ? fmt::format("{}", *number) : to_toml_value(value));
  }
  LoadResult& loaded_;
  size_t num_typed_;  // problems before the first rule
};

// Rejects given keys that nothing reads, by Field::applies_when.
void check_applies_when(Rules& rules, const RunConfig& config, bool is_training);
// Parts of check(): the optimizer and its number types; and which decays the rule of the learning rate has.
void check_optimizer(Rules& rules, const RunConfig& config);
void check_decay_type(Rules& rules, const LrScheduler& scheduler);
// Part of check(): the keys of rotary embedding.
void check_rope(Rules& rules, const RunConfig& config);
// Part of check(): the keys of latent attention.
void check_latent(Rules& rules, const Model& model);
// Part of check(): a folder in the run folder that one kind of file has for itself. It must be on a disk, because of
// `why_disk`; `example` is a good name.
void check_own_folder(Rules& rules, const RunConfig& config, std::string_view key, const std::string& given,
                      const std::string& why_disk, std::string_view example);
// Part of check(): traces and snapshots.
void check_profiling(Rules& rules, const RunConfig& config);

}  // namespace hearth::config
