// SPDX-License-Identifier: Apache-2.0
// AWS Neuron's NxD checkpoints: names of files, the tensors in a rank's files, and the state of the optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "convert/rank_parts.h"
#include "convert/rank_slices.h"
#include "convert/training_state.h"
#include "plan/parameters.h"

namespace hearth::convert {

// A file with a model's tensors, and the rank that has them.
struct NxdFile {
  std::string name;  // in the folder
  int64_t tp, pp;    // rank of tensor parallel, stage of the pipeline
};

// How a version of NxD names its files (see nxd_files()). kPretrained: a model from which a training starts.
enum class NxdNames { kV1, kV2, kV3, kPretrained };
// Queries, keys and values: separate as in Hugging Face's files, separate in the module qkv_proj, or one matrix in that
// module.
enum class NxdQkv { kSeparate, kModule, kFused };

using NxdPlace = std::pair<int64_t, int64_t>;  // rank of tensor parallel, stage

// The files that are written.
struct NxdLayout {
  NxdNames names = NxdNames::kV3;
  NxdQkv qkv = NxdQkv::kSeparate;
  bool xser = false;  // each tensor has a file of its own
};

// The name of a rank's file in the folder of the model.
std::string nxd_file_name(const NxdLayout& layout, int64_t tp, int64_t pp);

// Whether `folder` has files with NxD's names, has a folder `model` with such files (a step), or has the file `newest`.
bool is_nxd(const Path& folder);

// The folder with the model's files: the folder itself, `model` in a step's folder, or `model` of the last step in the
// file `newest`. Throws user_error for a step that was not saved to its end.
Path nxd_model_folder(const Path& folder);

// The files of the model. Their names have been tp_rank_00_pp_rank_00.pt, then dp_rank_00_tp_rank_..., then
// dp_rank_00_ep_rank_00_tp_rank_...; a model for the start of a training is tp_rank_00_pp_rank_00/checkpoint.pt. Throws
// user_error for experts.
std::vector<NxdFile> nxd_files(const Path& folder);

// Writes a file as the layout says: with xser each tensor is a file of its own, and version 3 has a list of their types
// and shapes, FILE.info.pt.
void write_nxd_file(const Path& path, const PythonValue& value, const NxdLayout& layout);

// The file with slice `dp` of a rank's optimizer state.
std::string nxd_optimizer_file_name(int64_t dp, int64_t tp, int64_t pp);

// The tensors of a rank and a stage, in the order of NxD's modules. They are cut from `tensors`, which have Hearth's
// names and are borrowed. `counts`: how many ranks and stages there are.
std::vector<RankTensor> nxd_tensors(const std::vector<Transfer>& tensors, const plan::ModelShape& shape,
                                    const NxdLayout& layout, const NxdPlace& counts, const NxdPlace& place);

// NxD's training scripts divide the weights into two groups. The second group does not decay: names that contain "bias"
// or this word. Arcee's scripts have "LayerNorm", which no weight of Llama's has, so all weights decay.
constexpr const char* kNxdAllDecay = "LayerNorm";
constexpr const char* kNxdMatricesDecay = "norm";
bool is_in_second_group(std::string_view name, std::string_view word);

// AdamW's moments of a rank's tensor, and its own copy of the weight where it saved one.
struct NxdMoments {
  RankPart exp_avg, exp_avg_sq;
  std::optional<RankPart> weight = std::nullopt;
};
using NxdTensors = std::vector<std::pair<std::string, RankPart>>;  // of a model's file, in its order
struct NxdState {
  TrainingState training;
  std::map<NxdPlace, std::map<std::string, NxdMoments>> moments;  // by the names of the model's file
  bool has_weights = false;                                       // all moments have a copy of the weight
};

// Reads the folder `optim` of a step, with `model`, the tensors in the files of each rank. Empty without that folder.
// The files count parameters, and the model's files have them in the same order. Throws user_error where files are
// missing or of another training script, damaged() where they contradict the model; both name the file.
std::optional<NxdState> read_nxd_state(const Path& step, const std::map<NxdPlace, NxdTensors>& model);

}  // namespace hearth::convert
