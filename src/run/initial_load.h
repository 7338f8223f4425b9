// Which parts of another training's checkpoint a new run takes over. Every part that is not taken over is named, in the
// run file (checkpoint.fresh, checkpoint.drop, checkpoint.exclude_from_loading) and on the console.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::run {

struct InitialLoad {
  std::vector<bool> fresh;         // by parameter of the plan: true means initial values, and moments at zero
  std::vector<std::string> notes;  // for the console

  bool is_fresh(size_t parameter) const { return !fresh.empty() && fresh[parameter]; }
  // Whether ids may mean other tokens than in the checkpoint: no parameter that depends on ids is taken over.
  bool new_vocabulary(const plan::ParameterPlan& plan) const;
};

// Compares the checkpoint's tensors with the run's model. `keys` lists the exceptions. Throws one user_error for all
// problems: a tensor that is not fresh is missing or has another shape or type, or the checkpoint has a weight that is
// neither in the model nor in checkpoint.drop.
InitialLoad plan_initial_load(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                              const checkpoint::Reader& reader);

}  // namespace hearth::run
