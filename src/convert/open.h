// How each kind of another program's weights is opened.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "convert/source.h"
#include "formats/dcp.h"

namespace hearth::convert {

// Each opens one kind.
Source open_hugging_face(const Path& folder);
Source open_meta(const Path& folder);
// Without `described`, moments that 0.3 has for queries, keys and values together keep their names.
Source open_dcp(const Path& folder, const Description* described);
Source open_neox(const Path& folder, const Description* described, std::optional<QkvLayout> layout);
Source open_nxd(const Path& folder, const Description* described);

// The ways in which transformers stores weights, in its order of preference.
struct HuggingFaceLayout {
  const char *single, *index;
};
inline constexpr HuggingFaceLayout kHuggingFaceLayouts[] = {{"model.safetensors", "model.safetensors.index.json"},
                                                            {"pytorch_model.bin", "pytorch_model.bin.index.json"}};

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
