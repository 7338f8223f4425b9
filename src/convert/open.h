// SPDX-License-Identifier: Apache-2.0
// Opens other programs' weights, with one function for each kind.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/load.h"
#include "convert/source.h"
#include "formats/dcp.h"

namespace hearth::convert {

// Each opens one kind.
Source open_hugging_face(const Path& folder);
Source open_meta(const Path& folder);
// Whether this is the name of a file with Meta's weights.
inline bool is_meta_file(std::string_view name) { return name.starts_with("consolidated.") && name.ends_with(".pth"); }
// torchtitan 0.3 has one tensor of moments for queries, keys and values. Without `described` it is not divided, and
// keeps its name.
Source open_dcp(const Path& folder, const Description* described);
Source open_neox(const Path& folder, const Description* described, std::optional<QkvLayout> layout);
Source open_nxd(const Path& folder, const Description* described);

// The files that transformers stores weights in, in the order in which it looks for them (5.23, modeling_utils.py,
// _get_resolved_checkpoint_files): the first one that exists is the model, and the others are ignored.
inline constexpr const char* kHuggingFaceFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                                    "pytorch_model.bin", "pytorch_model.bin.index.json"};

// The weights of a folder of Hugging Face.
struct HuggingFaceFiles {
  std::string name;  // one of kHuggingFaceFiles
  bool is_index = false;
  std::map<std::string, std::string> places;  // of an index: the file of each tensor
  std::vector<std::string> left_out;          // other files with weights, which are not read

  std::vector<std::string> notes() const;  // for the console
};
// Throws user_error if no file has weights, and for an adapter of PEFT beside or in place of the weights.
HuggingFaceFiles find_hugging_face_files(const Path& folder);

// The names of files that would hide the weights of `folder` if they were in the same folder: files that are looked for
// earlier, and an adapter's.
std::vector<std::string> files_before(const Path& folder);

// Gives a family's tensors Hearth's names; a name that is in no table stays. `notes` gets the parts of names that were
// removed, and the tensors outside the text model that `description` is about (Description::tower_of). Throws
// user_error for names of another program's format, and if two names are the same weight.
std::vector<checkpoint::OutsideTensor> with_our_names(const Path& folder, const Description& description,
                                                      std::vector<checkpoint::OutsideTensor> tensors,
                                                      std::vector<std::string>& notes);

// One file, safetensors or torch.save's, as tensors in one piece each.
struct WeightFile {
  bool is_zip = false;  // torch.save's
  std::vector<checkpoint::OutsideTensor> tensors;
  std::vector<formats::OtherEntry> others;  // entries that are no tensor, or whose type Hearth lacks
};

// Reads the headers of `folder`/`name`. `key`: the entry of the file's dict that has the tensors; empty: the dict
// itself. Throws damaged() naming the file.
WeightFile read_weight_file(const Path& folder, const std::string& name, const std::string& key = {});

}  // namespace hearth::convert
