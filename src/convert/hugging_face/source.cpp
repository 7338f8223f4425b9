// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/names.h"
#include "convert/open.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// Trainers save dicts that have the weights' dict under such a key.
constexpr std::string_view kDictKeys[] = {"state_dict", "model", "model_state_dict", "module"};

// The way on with a file that has no tensor at its top; empty: there is none of these keys.
std::string fix_of_inner_dict(const std::string& name, const WeightFile& file) {
  if (!file.tensors.empty()) return {};
  for (const formats::OtherEntry& other : file.others) {
    if (std::find(std::begin(kDictKeys), std::end(kDictKeys), other.name) == std::end(kDictKeys)) continue;
    return fmt::format(
        "if {0} is the dict of the weights, it is one level too deep: in Python, "
        "torch.save(torch.load(\"{1}\")[\"{0}\"], "
        "\"{1}\") in that folder",
        other.name, name);
  }
  return {};
}

std::vector<OutsideTensor> tensors_of(const Path& folder, const std::string& name) {
  WeightFile file = read_weight_file(folder, name);
  const std::string inner = fix_of_inner_dict(name, file);
  if (!file.others.empty())
    throw user_error(fmt::format("{}: {} is {}", (folder / name).string(), file.others[0].name, file.others[0].what),
                     "Hearth reads tensors of float32, float64, bfloat16 and float16 under the names of the weights",
                     inner.empty() ? "save the model's state_dict again, in one of these types" : inner);
  return std::move(file.tensors);
}

// An index may have stayed behind from an older save in another number of files.
[[noreturn]] void refuse_missing(const Path& folder, const std::string& file, const HuggingFaceFiles& index) {
  constexpr size_t kOthersNamed = 3;
  const bool has_others = !index.left_out.empty();
  throw user_error(
      fmt::format("{} is missing", (folder / file).string()),
      fmt::format("{} names it{}", (folder / index.name).string(),
                  has_others ? ", and not " + join_first(index.left_out, kOthersNamed) : ""),
      has_others ? "download it again, or get the index of the files that are there" : "download it again");
}

// All files of an index, which must tell the truth: each tensor is where it says, and no other is there.
std::vector<OutsideTensor> indexed_tensors(const Path& folder, const HuggingFaceFiles& index) {
  const std::string origin = (folder / index.name).string();
  std::map<std::string, std::string> missing = index.places;
  std::set<std::string> files;
  for (const auto& [tensor, file] : missing) files.insert(file);
  std::vector<OutsideTensor> all;
  for (const std::string& file : files) {
    if (!path_exists(folder / file)) refuse_missing(folder, file, index);
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

}  // namespace

Source open_hugging_face(const Path& folder) {
  const Path config = folder / "config.json";
  if (!path_exists(config)) {
    find_hugging_face_files(folder);  // throws where there is an adapter and no model
    throw user_error(fmt::format("{} is missing", config.string()), "it has the model's shape", "download it");
  }
  std::vector<std::string> notes;
  Description description = parse_hugging_face_config(read_file(config), config.string(), notes);
  const HuggingFaceFiles files = find_hugging_face_files(folder);
  for (std::string& note : files.notes()) notes.push_back(std::move(note));
  std::vector<OutsideTensor> tensors = with_our_names(
      folder, description, files.is_index ? indexed_tensors(folder, files) : tensors_of(folder, files.name), notes);
  checkpoint::Reader reader = checkpoint::Reader::over(folder, tensors);
  // With tied weights an output matrix of its own counts in some versions of transformers, and not in others.
  if (description.model.enable_weight_tying && reader.find(kOutput) != nullptr) {
    const std::string theirs =
        to_hugging_face(kOutput, config::nearest_family(description.model).name).value_or(kOutput);
    if (!output_is_embedding(reader))
      throw user_error(
          fmt::format("{} says tie_word_embeddings = true, and {} differs from the embedding", config.string(), theirs),
          fmt::format("transformers 4 would use the embedding, transformers 5 {}", theirs),
          fmt::format("set tie_word_embeddings to false in the file, or delete {}", theirs));
    std::erase_if(tensors, [](const OutsideTensor& tensor) { return tensor.info.name == kOutput; });
    reader = checkpoint::Reader::over(folder, std::move(tensors));
  }
  return {Kind::kHuggingFace, std::move(reader), std::move(description), std::move(notes)};
}

}  // namespace hearth::convert
