// The names of files in NxD's checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::convert {

// A file with a model's tensors, and whose they are.
struct NxdFile {
  std::string name;  // in the folder
  int64_t tp, pp;    // rank of tensor parallel, stage of the pipeline
};

// Whether `folder` has files named as NxD names them, is a step with such a folder `model`, or has `newest`.
bool is_nxd(const Path& folder);

// The folder with the model's files: the folder itself, `model` in a step's folder, or that of the step which `newest`
// names last. Throws user_error for a step that was not saved to its end.
Path nxd_model_folder(const Path& folder);

// The files of the model. Their names have been tp_rank_00_pp_rank_00.pt, then dp_rank_00_tp_rank_..., then
// dp_rank_00_ep_rank_00_tp_rank_...; a model for the start of a training is tp_rank_00_pp_rank_00/checkpoint.pt. Throws
// user_error for experts.
std::vector<NxdFile> nxd_files(const Path& folder);

}  // namespace hearth::convert
