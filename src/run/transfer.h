// What of another training's checkpoint a new run begins with. Everything that is not taken over is named: by the run
// file (checkpoint.fresh, checkpoint.drop, checkpoint.exclude_from_loading), and on the console.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::run {

struct Transfer {
  std::vector<bool> fresh;         // by parameter of the plan: begins with initial values, its moments at zero
  std::vector<std::string> notes;  // for the console

  bool is_fresh(size_t parameter) const { return !fresh.empty() && fresh[parameter]; }
  // The tokens' ids may mean something else than to the checkpoint: nothing that depends on them is taken over.
  bool new_vocabulary(const plan::ParameterPlan& plan) const;
};

// Holds the checkpoint's tensors against the run's model. `keys`: what of them is named. Throws user_error, for all
// tensors at once, where one that is not fresh is missing or has another shape or type, and where the checkpoint has
// one that the model has no place for and checkpoint.drop does not name.
Transfer plan_transfer(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                       const checkpoint::Reader& reader);

}  // namespace hearth::run
