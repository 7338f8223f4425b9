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

// What versions of NxD name a file, see nxd_files(); kPretrained is a model for the start of a training.
enum class NxdNames { kV1, kV2, kV3, kPretrained };
// Queries, keys and values: as Hugging Face has them; as parts of the module qkv_proj; one matrix of that module.
enum class NxdQkv { kSeparate, kModule, kFused };

// The files that are written.
struct NxdLayout {
  NxdNames names = NxdNames::kV3;
  NxdQkv qkv = NxdQkv::kSeparate;
  bool xser = false;  // each tensor has a file of its own
  int64_t stages = 1;
};

// The name of a rank's file in the folder of the model.
std::string nxd_file_name(const NxdLayout& layout, int64_t tp, int64_t pp);

// With `ranks` ranks, the first query head of rank `tp`. More ranks than the `keys` heads of keys have copies of them:
// kv_size_multiplier. Rank tp then has key tp % keys, and queries that go with it.
int64_t nxd_first_query(int64_t queries, int64_t keys, int64_t ranks, int64_t tp);

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
