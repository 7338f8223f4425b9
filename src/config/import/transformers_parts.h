// SPDX-License-Identifier: Apache-2.0
// Parts of a run of Transformers: its model and its learning rate.
#pragma once

#include <string>
#include <string_view>

#include "config/import/draft.h"

namespace hearth::config {

// The program that the keys are for. Missing keys have its defaults.
struct HfProgram {
  std::string name;       // "run_clm.py"; empty: a file of keys
  bool trainer = true;    // false: a loop of its own with accelerate
  bool frontier = false;  // frontier-accelerate's train.py

  std::string default_of() const { return frontier ? "frontier-accelerate's default" : "Transformers' default"; }
};

// In small letters, without - and _: programs spell one word in several ways.
std::string lower_plain(std::string_view text);

// Sets model.name and model.flavor, and the weights to begin with.
void import_hf_model(Draft& draft, const HfProgram& program);

// Sets lr_scheduler.* and optimizer.lr. The run's length is set already, where it is in steps.
void import_hf_schedule(Draft& draft, const HfProgram& program);

}  // namespace hearth::config
