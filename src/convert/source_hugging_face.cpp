#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "convert/hugging_face_config.h"
#include "convert/names.h"
#include "convert/open.h"
#include "formats/safetensors.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

std::vector<OutsideTensor> tensors_of(const Path& folder, const std::string& name) {
  WeightFile file = read_weight_file(folder, name);
  if (!file.others.empty())
    throw user_error(fmt::format("{}: {} is {}", (folder / name).string(), file.others[0].name, file.others[0].what),
                     "Hearth reads tensors of float32, float64, bfloat16 and float16 under the names of the weights",
                     "save the model's state_dict again, in one of these types");
  return std::move(file.tensors);
}

// All files of an index, which must tell the truth: each tensor is where it says, and no other is there.
std::vector<OutsideTensor> indexed_tensors(const Path& folder, const std::string& index) {
  const std::string origin = (folder / index).string();
  std::map<std::string, std::string> missing = formats::parse_safetensors_index(read_file(folder / index), origin);
  std::set<std::string> files;
  for (const auto& [tensor, file] : missing) files.insert(file);
  std::vector<OutsideTensor> all;
  for (const std::string& file : files) {
    if (!path_exists(folder / file))
      throw user_error(fmt::format("{} is missing", (folder / file).string()), fmt::format("{} names it", origin),
                       "download it again");
    for (OutsideTensor& tensor : tensors_of(folder, file)) {
      const auto found = missing.find(tensor.info.name);
      if (found == missing.end() || found->second != file)
        throw damaged(fmt::format("{} is wrong about {}", origin, tensor.info.name),
                      fmt::format("{} has this tensor, and the index does not say so", file),
                      "download the index and the files again");
      missing.erase(found);
      all.push_back(std::move(tensor));
    }
  }
  if (!missing.empty())
    throw damaged(fmt::format("{} is wrong about {}", origin, missing.begin()->first),
                  fmt::format("{} lacks this tensor", missing.begin()->second),
                  "download the index and the files again");
  return all;
}

std::vector<OutsideTensor> all_tensors(const Path& folder) {
  for (const HuggingFaceLayout& layout : kHuggingFaceLayouts) {
    if (path_exists(folder / layout.index)) return indexed_tensors(folder, layout.index);
    if (path_exists(folder / layout.single)) return tensors_of(folder, layout.single);
  }
  throw user_error(
      fmt::format("{} has no weights", folder.string()),
      fmt::format("there is none of {}, {}, {}, {}", kHuggingFaceLayouts[0].single, kHuggingFaceLayouts[0].index,
                  kHuggingFaceLayouts[1].single, kHuggingFaceLayouts[1].index),
      "download them");
}

constexpr const char* kOutput = "output.weight";

}  // namespace

Source open_hugging_face(const Path& folder) {
  const Path config = folder / "config.json";
  if (!path_exists(config))
    throw user_error(fmt::format("{} is missing", config.string()), "it has the model's shape", "download it");
  std::vector<std::string> notes;
  Description description = parse_hugging_face_config(read_file(config), config.string(), notes);
  std::vector<OutsideTensor> tensors;
  for (OutsideTensor& tensor : all_tensors(folder)) {
    if (is_computed(tensor.info.name)) continue;
    if (const auto name = from_hugging_face(tensor.info.name)) tensor.info.name = *name;
    tensors.push_back(std::move(tensor));
  }
  checkpoint::Reader reader = checkpoint::Reader::over(folder, tensors);
  // With tied weights an output matrix of its own counts in some versions of transformers, and not in others.
  if (description.model.enable_weight_tying && reader.find(kOutput) != nullptr) {
    if (!same_elements(reader, kOutput, "tok_embeddings.weight"))
      throw user_error(fmt::format("{} says tie_word_embeddings = true, and lm_head.weight differs from the embedding",
                                   config.string()),
                       "transformers 4 would use the embedding, transformers 5 lm_head.weight",
                       "set tie_word_embeddings to false in the file, or delete lm_head.weight");
    std::erase_if(tensors, [](const OutsideTensor& tensor) { return tensor.info.name == kOutput; });
    reader = checkpoint::Reader::over(folder, std::move(tensors));
  }
  return {Kind::kHuggingFace, std::move(reader), std::move(description), std::move(notes)};
}

}  // namespace hearth::convert
