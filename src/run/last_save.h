// SPDX-License-Identifier: Apache-2.0
// The save of a run's last step with checkpoint.last_save_model_only, which has the weights alone, and its copy in
// Hugging Face's format.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "mesh/tensor_box.h"
#include "run/run.h"

namespace hearth::run {

// The weights' type if this step's save has the weights alone; nullopt if it has the whole state.
std::optional<DType> weights_alone(const Run& run, int64_t step);

// checkpoint::write_rank_file of the weights among `pieces`, rounded to `dtype`. One piece in that type is in memory at
// a time. Local.
std::string write_weights(const Path& temporary, int64_t rank, std::span<const mesh::TensorPiece> pieces, DType dtype,
                          const std::stop_token& stop);

// Throws user_error if the run would have to continue from weights alone. The error names the newest checkpoint from
// which it could continue.
void require_moments(const checkpoint::Reader& reader, const Run& run);

// CHECKPOINTS/step-00000100-hf of CHECKPOINTS/step-00000100.
Path hugging_face_folder(const Path& step);

// Throws user_error if Hugging Face's formats cannot store the model.
void check_hugging_face(const config::RunConfig& config, const plan::ModelShape& shape);

// After the last step: writes hugging_face_folder() from its checkpoint, in place of an older one, if the run file asks
// for it and the checkpoint has the weights alone. If this start began after the last step (`first_step`), only a
// missing folder is written: a crash came between the save and the copy. Returns lines for the console. Collective;
// rank 0 does the work.
std::vector<std::string> complete_last_save(const Run& run, int64_t first_step, comm::Control& control);

}  // namespace hearth::run
