// SPDX-License-Identifier: Apache-2.0
// Which files of a folder of Hugging Face are its weights, what their tensors are called, and where they lie.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"
#include "config/families.h"
#include "convert/hugging_face/llada.h"
#include "convert/hugging_face/stacked.h"
#include "convert/names.h"
#include "convert/open.h"
#include "formats/lfs_pointer.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr const char* kAdapter = "adapter_config.json";  // PEFT's
constexpr size_t kFilesNamed = 6;

// Files with weights by their names. Other files of torch.save are of a training: optimizer.bin, training_args.bin.
bool has_weights(std::string_view name) {
  const bool is_torch = name.starts_with("pytorch_model") && name.ends_with(".bin");
  return is_torch || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         name == "pytorch_model.bin.index.json" || name == "adapter_model.bin";
}

// transformers passes over a folder of the name.
bool has_file(const Path& folder, const char* name) {
  return path_exists(folder / name) && !folder_exists(folder / name);
}

void refuse_adapter(const Path& folder, bool has_weights) {
  if (!path_exists(folder / kAdapter)) return;
  const std::string path = (folder / kAdapter).string();
  if (!has_weights)
    throw user_error(fmt::format("{} has an adapter of PEFT, and no model", folder.string()),
                     fmt::format("{} says how the weights of another model change", path),
                     "merge the two (merge_and_unload() of peft) and save the result");
  throw user_error(fmt::format("{} has an adapter of PEFT beside the weights: {}", folder.string(), kAdapter),
                   "transformers adds it to the weights where peft is installed, and leaves it out elsewhere",
                   "merge it into the weights (merge_and_unload() of peft), or move it to another folder to take the "
                   "weights without it");
}

// The name that a tensor of a text model has in a file of that model alone. transformers has written "language_model."
// before all names of the text model, and since 4.52 also "model.language_model." before those within its "model.".
// Empty: it is of another part.
std::string name_alone(std::string_view name) {
  constexpr std::string_view kWithin = "model.language_model.", kBefore = "language_model.", kHead = "lm_head.";
  if (name.starts_with(kWithin)) return fmt::format("model.{}", name.substr(kWithin.size()));
  if (name.starts_with(kBefore)) return std::string(name.substr(kBefore.size()));
  return name.starts_with(kHead) ? std::string(name) : std::string();
}

// Drops the tensors of other parts, and says how many of which.
void keep_text_tower(std::vector<checkpoint::OutsideTensor>& tensors, std::vector<std::string>& notes) {
  std::map<std::string, int64_t> others;
  std::erase_if(tensors, [&](checkpoint::OutsideTensor& tensor) {
    const std::string own = unwrapped(tensor.info.name), alone = name_alone(own);
    if (alone.empty()) {
      const std::string_view part = without_model(own);
      ++others[std::string(part.substr(0, part.find('.')))];
      return true;
    }
    tensor.info.name = alone;
    return false;
  });
  std::vector<std::string> words;
  for (const auto& [part, count] : others)
    words.push_back(fmt::format("{} ({})", part, hearth::counted(count, "tensor")));
  if (!words.empty()) notes.push_back("left out, being no part of the text model: " + join(words));
}

// Drops layers behind the model's, which predict tokens beyond the next (DeepSeek-V3, GLM-4.5). transformers leaves
// them out, too. ERNIE 4.5 calls them by what they are: "mtp_block.0."
void leave_out_prediction_layers(std::vector<checkpoint::OutsideTensor>& tensors, const Description& description,
                                 std::vector<std::string>& notes) {
  const int64_t begin = description.model.n_layers;
  const size_t before = tensors.size();
  if (description.prediction_layers > 0)
    std::erase_if(tensors, [](const checkpoint::OutsideTensor& tensor) {
      return without_model(unwrapped(tensor.info.name)).starts_with("mtp_");
    });
  for (int64_t layer = begin; layer < begin + description.prediction_layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    std::erase_if(tensors, [&](const checkpoint::OutsideTensor& tensor) {
      return without_model(unwrapped(tensor.info.name)).starts_with(prefix);
    });
  }
  if (tensors.size() < before)
    notes.push_back(fmt::format("left out: {} that {} tokens beyond the next ({})",
                                hearth::counted(description.prediction_layers, "layer"),
                                description.prediction_layers == 1 ? "predicts" : "predict",
                                hearth::counted(static_cast<int64_t>(before - tensors.size()), "tensor")));
}

}  // namespace

HuggingFaceFiles find_hugging_face_files(const Path& folder) {
  HuggingFaceFiles files;
  const std::vector<std::string> names = list_folder(folder);
  std::vector<std::string> all;
  std::copy_if(names.begin(), names.end(), std::back_inserter(all), has_weights);
  for (const char* name : kHuggingFaceFiles) {
    if (files.name.empty() && has_file(folder, name)) files.name = name;
  }
  refuse_adapter(folder, !files.name.empty());
  if (files.name.empty())
    throw user_error(fmt::format("{} has no weights", folder.string()),
                     fmt::format("there is none of {}; it has {}", fmt::join(kHuggingFaceFiles, ", "),
                                 names.empty() ? "no files" : join_first(names, kFilesNamed)),
                     "download them");
  files.is_index = files.name.ends_with(".json");
  std::set<std::string> taken = {files.name};
  if (files.is_index) {
    files.places = formats::parse_safetensors_index(read_file(folder / files.name), (folder / files.name).string());
    for (const auto& [tensor, file] : files.places) taken.insert(file);
  }
  std::copy_if(all.begin(), all.end(), std::back_inserter(files.left_out),
               [&](const std::string& name) { return !taken.contains(name); });
  return files;
}

std::vector<std::string> files_before(const Path& folder) {
  std::vector<std::string> names = {kAdapter};
  for (const char* name : kHuggingFaceFiles) {
    if (has_file(folder, name)) break;
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> HuggingFaceFiles::notes() const {
  if (left_out.empty()) return {};
  return {fmt::format("the weights are those of {}, as in transformers; left out: {}", name,
                      join_first(left_out, kFilesNamed))};
}

namespace {

// The rows of a weight of this model, and all of its shape.
std::vector<int64_t> shape_of_weight(const config::Model& model, const std::string& name) {
  config::Model one = model;  // the layers of these families are equal
  one.n_layers = 1;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(one, 0));
  const std::string rest = name.substr(name.find('.', std::string_view("layers.").size()));
  const int64_t index = plan.find("layers.0" + rest);
  HEARTH_CHECK(index >= 0, "{} is no weight of a layer", name);
  return plan.parameters[static_cast<size_t>(index)].shape;
}

// One tensor for each of `names`: their rows follow each other in `joined`, `num_groups` times an equal part of each.
std::vector<checkpoint::OutsideTensor> split_rows(const Path& folder, const config::Model& model,
                                                  const checkpoint::OutsideTensor& joined,
                                                  const std::vector<std::string>& names, int64_t num_groups) {
  std::vector<checkpoint::OutsideTensor> parts;
  std::vector<int64_t> firsts;  // rows of a group before the part's
  int64_t group_rows = 0;
  for (const std::string& name : names) {
    parts.push_back({{name, joined.info.dtype, joined.info.shape}, {}});
    firsts.push_back(group_rows);
    if (joined.info.shape.empty()) continue;  // refused below
    parts.back().info.shape[0] = shape_of_weight(model, name).front();
    group_rows += parts.back().info.shape[0] / num_groups;
  }
  const int64_t found = joined.info.shape.empty() ? 0 : joined.info.shape[0];
  if (found != group_rows * num_groups || found == 0)
    throw user_error(fmt::format("{}: {} has {}, and the sizes of config.json make it {}", folder.string(),
                                 joined.info.name, hearth::counted(found, "row"), group_rows * num_groups),
                     fmt::format("it has the rows of {}", join(names)), "get config.json and the weights of one model");
  const checkpoint::OutsideTensor::Piece& whole = joined.pieces.front();
  const int64_t row_bytes = whole.layout.strides[0] * dtype_size(joined.info.dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t rows = parts[i].info.shape[0] / num_groups;
    for (int64_t group = 0; group < num_groups; ++group) {
      checkpoint::OutsideTensor::Piece& piece = parts[i].pieces.emplace_back(whole);
      piece.box.offsets[0] = group * rows;
      piece.box.sizes[0] = piece.layout.sizes[0] = rows;
      piece.layout.data_offset += (group * group_rows + firsts[i]) * row_bytes;
    }
  }
  return parts;
}

// A matrix of one row becomes a vector. Another shape stays, and is refused with the others that do not fit.
void drop_row(checkpoint::OutsideTensor& tensor) {
  if (tensor.info.shape.size() != 2 || tensor.info.shape[0] != 1) return;
  checkpoint::OutsideTensor::Piece& piece = tensor.pieces.front();
  for (std::vector<int64_t>* sizes :
       {&tensor.info.shape, &piece.box.offsets, &piece.box.sizes, &piece.layout.sizes, &piece.layout.strides})
    sizes->erase(sizes->begin());
}

}  // namespace

std::vector<checkpoint::OutsideTensor> with_our_names(const Path& folder, const Description& description,
                                                      std::vector<checkpoint::OutsideTensor> tensors,
                                                      std::vector<std::string>& notes) {
  if (!description.tower_of.empty()) keep_text_tower(tensors, notes);
  leave_out_prediction_layers(tensors, description, notes);
  const std::string_view family = config::family_of(description.model).name;
  const bool is_llada = description.objective == config::ObjectiveKind::kMaskedDiffusion;
  Renaming renaming(folder.string());
  std::vector<checkpoint::OutsideTensor> named = split_stacked(folder, description, tensors, renaming, notes);
  for (checkpoint::OutsideTensor& tensor : tensors) {
    std::string& name = tensor.info.name;
    if (is_computed(name)) continue;
    if (const auto llada = is_llada ? from_llada(unwrapped(name)) : std::nullopt) {
      renaming.add(name, *llada, unwrapped(name));
      name = *llada;
    } else if (const auto ours = from_wrapped_hugging_face(name, family)) {
      const std::vector<std::string> names = joined_in_hugging_face(*ours, family);
      for (const std::string& one : names) renaming.add(name, one, *to_hugging_face(one, family));
      if (names.size() > 1) {
        const int64_t num_groups = alternate_by_head(*ours, family) ? description.model.n_heads : 1;
        for (checkpoint::OutsideTensor& part : split_rows(folder, description.model, tensor, names, num_groups))
          named.push_back(std::move(part));
        continue;
      }
      name = *ours;
      if (is_row_in_hugging_face(name, family)) drop_row(tensor);
    } else if (const std::string plain = unwrapped(name);
               to_hugging_face(plain, family) || to_hugging_face(without_model(plain), family)) {
      throw user_error(fmt::format("{}: {} is a name of Meta's and torchtitan's formats", folder.string(), name),
                       "config.json is Hugging Face's, where the rows of queries and keys have another order",
                       "convert the folder that has these weights with their own params.json or run file");
    }
    named.push_back(std::move(tensor));
  }
  for (std::string& note : renaming.notes()) notes.push_back(std::move(note));
  return named;
}

WeightFile read_weight_file(const Path& folder, const std::string& name, const std::string& key) {
  const std::string origin = (folder / name).string();
  const File file = File::open_read(folder / name);
  WeightFile result;
  const auto add = [&](const mesh::TensorInfo& info, formats::TensorLayout layout) {
    const mesh::Box whole{std::vector<int64_t>(info.shape.size()), info.shape};
    result.tensors.push_back({info, {{whole, name, std::move(layout)}}});
  };
  formats::refuse_lfs_pointer(file, origin);
  result.is_zip = formats::is_zip(file);
  if (result.is_zip) {
    formats::TorchFile found = formats::read_torch_file(file, origin, key);
    for (formats::TorchTensor& tensor : found.tensors)
      add({tensor.name, tensor.layout.dtype, tensor.layout.sizes}, tensor.layout);
    result.others = std::move(found.others);
    return result;
  }
  if (!name.ends_with(".safetensors"))
    throw damaged(fmt::format("{}: not a torch.save file that can be read", origin),
                  "it is no zip file: it is damaged, or PyTorch before 1.6 wrote it",
                  "load it with torch.load(..., weights_only=True) and save it again");
  formats::SafetensorsFile found = formats::read_safetensors(file, origin);
  for (const formats::SafetensorsTensor& tensor : found.tensors) {
    std::vector<int64_t> strides(tensor.info.shape.size());
    int64_t stride = 1;
    for (size_t d = strides.size(); d-- > 0; stride *= std::max<int64_t>(tensor.info.shape[d], 1)) strides[d] = stride;
    add(tensor.info, {tensor.info.dtype, tensor.info.shape, std::move(strides), tensor.offset});
  }
  result.others = std::move(found.others);
  return result;
}

}  // namespace hearth::convert
