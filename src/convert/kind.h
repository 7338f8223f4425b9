// SPDX-License-Identifier: Apache-2.0
// The kinds of checkpoints that Hearth converts, and how a folder's kind is found.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::convert {

enum class Kind {
  kNative,       // a folder of DCP with hearth.json
  kDcp,          // a folder of torch.distributed.checkpoint; it is written with torchtitan's names (2025)
  kTorchtitan,   // the same with the names of torchtitan 0.3; only as a target: kDcp reads both
  kHuggingFace,  // config.json with safetensors, or PyTorch's .bin files
  kMeta,         // params.json with consolidated.00.pth and so on
  kNeox,         // GPT-NeoX's global_step folders
  kNxd,          // AWS Neuron's NxD
};

inline constexpr Kind kKinds[] = {Kind::kNative, Kind::kDcp,  Kind::kTorchtitan, Kind::kHuggingFace,
                                  Kind::kMeta,   Kind::kNeox, Kind::kNxd};
// The words of --from and --to: "native", "dcp", "torchtitan", "hf", "meta", "neox", "nxd".
std::string_view kind_name(Kind kind);
std::optional<Kind> find_kind_name(std::string_view name);

// A folder with weights and its kind, which is found from the folder's files. A run's folder stands for its newest
// checkpoint. `wanted`: the kind that the caller expects; it decides between two kinds in one folder. Throws user_error
// if there are no weights, no weights of that kind, or two kinds and no `wanted`.
struct FoundWeights {
  Kind kind;
  Path folder;
};
FoundWeights find_weights(const Path& folder, std::optional<Kind> wanted = std::nullopt);

}  // namespace hearth::convert
