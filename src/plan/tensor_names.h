// SPDX-License-Identifier: Apache-2.0
// Names of tensors in a checkpoint. They are torchtitan's (2025) in dcp.save, so each program reads the other's
// checkpoints.
//
// Weights have their parameter name at the top level. AdamW's state has the names of torch's get_optimizer_state_dict
// with flatten_optimizer_state_dict=True, under the key "optimizer". So has Muon's: one tensor for each matrix.
// Stored on disk: never change.
#pragma once

#include <string>
#include <string_view>

namespace hearth::plan {

inline std::string weight_name(const std::string& parameter) { return parameter; }
inline std::string exp_avg_name(const std::string& parameter) { return "optimizer.state." + parameter + ".exp_avg"; }
inline std::string exp_avg_sq_name(const std::string& parameter) {
  return "optimizer.state." + parameter + ".exp_avg_sq";
}
inline std::string momentum_name(const std::string& parameter) {
  return "optimizer.state." + parameter + ".momentum_buffer";
}
// torch keeps AdamW's step count per parameter, as a 0-d float32 tensor.
inline std::string adam_step_name(const std::string& parameter) { return "optimizer.state." + parameter + ".step"; }

// Whether a tensor of a checkpoint is state of the optimizer and not a weight.
inline bool is_optimizer_state(std::string_view tensor) { return tensor.starts_with("optimizer."); }

}  // namespace hearth::plan
