// SPDX-License-Identifier: Apache-2.0
#include "convert/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "convert/nxd.h"
#include "convert/open.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::convert {
namespace {

constexpr std::array<std::string_view, 7> kKindNames = {"native", "dcp", "torchtitan", "hf", "meta", "neox", "nxd"};

constexpr size_t kNamesShown = 8;

constexpr const char* kWhatIsLookedFor =
    "none of these is there: hearth.json (native), .metadata (dcp), config.json (hf), consolidated.00.pth (meta), "
    "a file ending in model_states.pt (neox), tp_rank_00... (nxd), step-... (a run)";

bool is_weight_file(std::string_view name) {
  return name.ends_with(".safetensors") || name == "pytorch_model.bin" || name.ends_with(".index.json") ||
         name == "adapter_config.json";
}

std::string content_text(const Path& folder) {
  const std::vector<std::string> names = list_folder(folder);
  return names.empty() ? "it is empty" : fmt::format("it has {}", join_first(names, kNamesShown));
}

// Kinds whose files are in the folder.
std::vector<Kind> kinds_in(const Path& folder) {
  std::vector<Kind> kinds;
  if (path_exists(folder / checkpoint::kManifestFile))
    kinds.push_back(Kind::kNative);
  else if (path_exists(folder / checkpoint::kMetadataFile))
    kinds.push_back(Kind::kDcp);
  const std::vector<std::string> names = list_folder(folder);
  const bool has_config = path_exists(folder / "config.json");
  if (has_config || std::any_of(names.begin(), names.end(), is_weight_file)) kinds.push_back(Kind::kHuggingFace);
  if (std::any_of(names.begin(), names.end(), is_meta_file)) kinds.push_back(Kind::kMeta);
  // GPT-NeoX's folder of a step, or the folder above, where `latest` names it.
  const auto is_neox = [](std::string_view name) { return name.ends_with("model_states.pt"); };
  // DeepSpeed also writes `latest` beside the weights that transformers' Trainer saves.
  const bool is_trainers = has_config && std::any_of(std::begin(kHuggingFaceFiles), std::end(kHuggingFaceFiles),
                                                     [&](const char* name) { return path_exists(folder / name); });
  if (std::any_of(names.begin(), names.end(), is_neox) || (!is_trainers && path_exists(folder / "latest")))
    kinds.push_back(Kind::kNeox);
  if (is_nxd(folder)) kinds.push_back(Kind::kNxd);
  return kinds;
}

std::string named(const std::vector<Kind>& kinds) {
  std::vector<std::string> names;
  for (const Kind kind : kinds) names.emplace_back(kind_name(kind));
  return join(names, " and ");
}

}  // namespace

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<Kind> find_kind_name(std::string_view name) {
  for (const Kind kind : kKinds) {
    if (kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

FoundWeights find_weights(const Path& folder, std::optional<Kind> wanted) {
  if (!path_exists(folder)) return find_weights(runfolder::find_checkpoint(folder), wanted);  // or throws
  if (!folder_exists(folder))
    throw user_error(fmt::format("{} is a file", folder.string()),
                     "the weights' names and shapes are in more than one file", "give the folder that contains it");
  if (wanted == Kind::kTorchtitan) wanted = Kind::kDcp;
  const std::vector<Kind> kinds = kinds_in(folder);
  if (wanted && std::find(kinds.begin(), kinds.end(), *wanted) != kinds.end()) return {*wanted, folder};
  if (kinds.size() > 1)
    throw user_error(fmt::format("{} has the files of two kinds: {}", folder.string(), named(kinds)), {},
                     "give --from, or move one kind to another folder");
  if (kinds.empty() && (!wanted || *wanted == Kind::kNative || *wanted == Kind::kDcp)) {
    if (const std::optional<Path> newest = runfolder::checkpoint_in(folder)) return find_weights(*newest, wanted);
    throw user_error(fmt::format("{} has no weights that Hearth knows", folder.string()),
                     fmt::format("{}; {}", content_text(folder), kWhatIsLookedFor),
                     "give the folder that has these files, or the folder of a run");
  }
  if (wanted)
    throw user_error(fmt::format("{} is not of the kind {}", folder.string(), kind_name(*wanted)),
                     kinds.empty() ? fmt::format("no weights of this kind are there; {}", content_text(folder))
                                   : fmt::format("its files are of the kind {}", named(kinds)),
                     "leave out --from: the kind is found from the files");
  return {kinds.front(), folder};
}

}  // namespace hearth::convert
