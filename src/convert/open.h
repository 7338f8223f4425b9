// SPDX-License-Identifier: Apache-2.0
// How each kind of another program's weights is opened.
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
// Whether Meta's weights are in files with such a name.
inline bool is_meta_file(std::string_view name) { return name.starts_with("consolidated.") && name.ends_with(".pth"); }
// Without `described`, moments that 0.3 has for queries, keys and values together keep their names.
Source open_dcp(const Path& folder, const Description* described);
Source open_neox(const Path& folder, const Description* described, std::optional<QkvLayout> layout);
Source open_nxd(const Path& folder, const Description* described);

// The files that transformers stores weights in, in the order in which it looks for them (5.23, modeling_utils.py,
// _get_resolved_checkpoint_files): the first that is there is the model, whatever else is.
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

// Names that hide the weights of `folder` where both are in one folder: files that are looked for before them, and an
// adapter's.
std::vector<std::string> files_before(const Path& folder);

// Gives the tensors of a family Hearth's names; one that no table has keeps its own. `notes`: what was taken off the
// names, and what is left out of a model that `description` is the text model of. Throws user_error for names of
// another program's format, and if two names stand for one weight.
std::vector<checkpoint::OutsideTensor> with_our_names(const Path& folder, const Description& description,
                                                      std::vector<checkpoint::OutsideTensor> tensors,
                                                      std::vector<std::string>& notes);

// One file, safetensors or torch.save's, as tensors in one piece each.
struct WeightFile {
  bool is_zip = false;  // torch.save's
  std::vector<checkpoint::OutsideTensor> tensors;
  std::vector<formats::OtherEntry> others;  // what is no tensor, or one of a type that Hearth lacks
};

// Reads the headers of `folder`/`name`. `key`: of the file's dict, the value that has the tensors; empty: the dict
// itself. Throws damaged() naming the file.
WeightFile read_weight_file(const Path& folder, const std::string& name, const std::string& key = {});

}  // namespace hearth::convert
