// SPDX-License-Identifier: Apache-2.0
// The state that DeepSpeed's ZeRO 1 and 2 save for each rank of data parallel: a slice of all parameters of the rank's
// model, one after another, as float32 weights and as AdamW's moments. A slice ends anywhere in a parameter.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "config/config.h"
#include "convert/rank_parts.h"
#include "convert/rank_slices.h"
#include "convert/training_state.h"

namespace hearth::convert {

// One parameter: the runs of bytes that make up its weights and moments, all of one type.
struct ZeroParameter {
  DType dtype = DType::kFloat32;
  std::vector<FileRun> weight, exp_avg, exp_avg_sq;
};

struct ZeroState {
  TrainingState training;
  // By number of the model-parallel rank, then by the parameter's name in its model.
  std::map<int64_t, std::map<std::string, ZeroParameter>> parameters;
};

// Reads the files bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt and so on of a folder, and the counts of steps in
// mp_rank_00_model_states.pt. Empty without such files. Throws user_error where files are missing or of ZeRO 3,
// damaged() where they contradict each other; both name the file.
std::optional<ZeroState> read_zero_state(const Path& folder);

// A parameter to write: its name in the model, and its float32 elements.
struct ZeroTensor {
  std::string name;
  RankTensor weight, exp_avg, exp_avg_sq;
};
// Parameters with the same settings, in the order of their flat buffer.
struct ZeroGroup {
  std::string name;
  double weight_decay = 0;
  std::vector<ZeroTensor> tensors;
};
// The settings that all groups share.
struct ZeroSettings {
  const config::Optimizer& keys;
  double lr;        // of the next update
  int64_t updates;  // that the moments have seen
};

// Writes PREFIXzero_pp_rank_0_mp_rank_RANK_optim_states.pt and so on, one for each of `slices` ranks of data parallel.
// `prefix`: "bf16_" for a training in bfloat16, "" for others. The settings have the names that torch's AdamW and
// DeepSpeed's FusedAdam read.
void write_zero_files(const Path& folder, const std::string& prefix, int64_t rank, int64_t slices,
                      const std::vector<ZeroGroup>& groups, const ZeroSettings& settings, checkpoint::Reader& reader,
                      ConvertProgress& progress);

}  // namespace hearth::convert
