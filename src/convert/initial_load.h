// SPDX-License-Identifier: Apache-2.0
// Which of the weights in checkpoint.initial_load_path a new run takes over, and whether they belong to its model. The
// run file has to name each part that is not taken over (checkpoint.fresh, checkpoint.drop,
// checkpoint.exclude_from_loading), and the console shows it.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "convert/source.h"
#include "plan/parameters.h"

namespace hearth::convert {

struct InitialLoad {
  std::vector<bool> fresh;         // by parameter of the plan: true means initial values, and moments at zero
  std::vector<std::string> notes;  // for the console

  bool is_fresh(size_t parameter) const { return !fresh.empty() && fresh[parameter]; }
  // Whether ids may mean other tokens than in the checkpoint, because no parameter that depends on ids is taken over.
  bool new_vocabulary(const plan::ParameterPlan& plan) const;
};

// Compares the checkpoint's tensors with the run's model. `keys` lists the exceptions. Throws one user_error for all
// problems: a tensor that is not fresh is missing or has another shape or type, or the checkpoint has a weight that is
// neither in the model nor in checkpoint.drop.
InitialLoad plan_initial_load(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                              const checkpoint::Reader& reader);

// Checks what shapes cannot show: heads, pairs of rotary dimensions, the norm, a window. Throws one user_error for all
// differences. Returns the changes that a training may make (rotary frequencies, eps), for the console. Folders of
// PyTorch say nothing about their model.
std::vector<std::string> check_same_model(const Source& source, const config::RunConfig& ours);

}  // namespace hearth::convert
