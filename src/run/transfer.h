// The parts of another training's checkpoint that a new run loads. The run file (checkpoint.fresh, checkpoint.drop,
// checkpoint.exclude_from_loading) and the console name everything that is not loaded.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::run {

struct Transfer {
  std::vector<bool> fresh;         // by parameter of the plan: starts from initial values, with moments of zero
  std::vector<std::string> notes;  // for the console

  bool is_fresh(size_t parameter) const { return !fresh.empty() && fresh[parameter]; }
  // Token ids may have another meaning than in the checkpoint: no state that depends on them is loaded.
  bool new_vocabulary(const plan::ParameterPlan& plan) const;
};

// Compares the checkpoint's tensors with the run's model. Throws user_error for all tensors at once: if a tensor that
// is not fresh is missing or has another shape or type, or if the model lacks a tensor of the checkpoint and
// checkpoint.drop does not name it.
Transfer plan_transfer(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                       const checkpoint::Reader& reader);

}  // namespace hearth::run
