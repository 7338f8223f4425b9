// SPDX-License-Identifier: Apache-2.0
#include "convert/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/names.h"
#include "convert/open.h"
#include "convert/source.h"
#include "convert/weights_of_model.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// What a file has to have.
enum class Content {
  kWeights,    // tensors only
  kModule,     // of GPT-NeoX: a dict whose "module" has the tensors
  kDict,       // tensors and other values
  kOneTensor,  // of NxD's xser
  kAnything,   // state of a training: a zip
};

class FolderCheck {
 public:
  FolderCheck(const Path& folder, ConvertProgress& progress) : folder_(folder), progress_(progress) {}

  // Whether `body` threw nothing. Problems are kept.
  template <class Body>
  bool attempt(const Body& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kDamaged && error.code() != ExitCode::kUser) throw;
      add(error.why().empty() ? error.message() : fmt::format("{}: {}", error.message(), error.why()));
      return false;
    }
  }
  void add(std::string problem) { found_.problems.push_back(std::move(problem)); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Checks a file by itself, and returns its tensors; nullopt if they cannot be known.
  std::optional<std::vector<OutsideTensor>> check_file(const std::string& name, Content content) {
    if (!path_exists(folder_ / name)) {
      add(fmt::format("{} is missing", path(name)));
      return {};
    }
    ++found_.files;
    const bool is_zip = formats::is_zip(File::open_read(folder_ / name));
    if (is_zip || content != Content::kWeights) attempt([&] { check_members(name); });
    (is_zip ? has_zips_ : has_plain_files_) = true;
    if (content == Content::kAnything) return {};
    std::optional<WeightFile> file;
    attempt([&] { file = read(name, content); });
    if (!file) return {};
    if (content == Content::kWeights) {
      for (const formats::OtherEntry& other : file->others)
        add(fmt::format("{}: {} is {}", path(name), other.name, other.what));
    }
    check_elements(name, file->tensors);
    return std::move(file->tensors);
  }

  WeightsCheck finish() {
    found_.checked.insert(found_.checked.begin(), {"headers", "sizes"});
    if (has_zips_) {
      auto& list = lacks_crcs_ ? found_.unchecked : found_.checked;
      list.emplace_back(lacks_crcs_ ? "the zip files' values: PyTorch was told to write no CRC-32s"
                                    : "the zip files' CRC-32s");
    }
    found_.checked.emplace_back("every element is finite");
    if (has_plain_files_) found_.unchecked.emplace_back("the values of safetensors: the format has no checksums");
    return std::move(found_);
  }
  WeightsCheck& found() { return found_; }

 private:
  WeightFile read(const std::string& name, Content content) const {
    if (content != Content::kOneTensor)
      return read_weight_file(folder_, name, content == Content::kModule ? "module" : "");
    formats::TorchTensor tensor = formats::read_torch_tensor(File::open_read(folder_ / name), path(name));
    const mesh::Box whole{std::vector<int64_t>(tensor.layout.sizes.size()), tensor.layout.sizes};
    const mesh::TensorInfo info{"the tensor", tensor.layout.dtype, tensor.layout.sizes};
    return {true, {{info, {{whole, name, std::move(tensor.layout)}}}}, {}};
  }

  void check_members(const std::string& name) {
    const File file = File::open_read(folder_ / name);
    for (const formats::ZipMember& member : formats::read_zip_directory(file, 0, file.size_bytes(), path(name))) {
      if (!member.has_crc()) {
        lacks_crcs_ |= member.length > 0;
        continue;
      }
      const uint32_t crc = formats::crc_of(file, member);
      if (crc != member.crc)
        add(fmt::format("{}: {} is damaged: CRC-32 {:08x}, expected {:08x}", path(name), member.name, crc, member.crc));
    }
  }

  void check_elements(const std::string& name, const std::vector<OutsideTensor>& tensors) {
    const int64_t size = File::open_read(folder_ / name).size_bytes();
    for (const OutsideTensor& tensor : tensors) {
      ++found_.tensors;
      // Strides of 0 make a tensor of any size from one element.
      const int64_t numel = mesh::Box{{}, tensor.info.shape}.numel();
      if (numel > size) {
        add(fmt::format("{}: {} has {} elements, more than the file has bytes", path(name), tensor.info.name, numel));
        continue;
      }
      found_.bytes += bytes_of(tensor.info);
      if (numel == 0 || !is_floating_point(tensor.info.dtype)) continue;
      attempt([&] {
        checkpoint::Reader reader = checkpoint::Reader::over(folder_, {tensor});
        transfer(reader, {tensor.info.name, tensor.info}, progress_, [](const mesh::Box&, auto) {});
      });
    }
  }

  const Path& folder_;
  ConvertProgress& progress_;
  WeightsCheck found_;
  bool has_zips_ = false, has_plain_files_ = false, lacks_crcs_ = false;
};

// An index's files, or the one file. Each tensor is where the index says, and no other is there. nullopt: not all
// tensors are known.
std::optional<std::vector<OutsideTensor>> check_indexed(FolderCheck& check, const HuggingFaceFiles& files) {
  if (!files.is_index) return check.check_file(files.name, Content::kWeights);
  check.found().checked.emplace_back("the index");
  std::map<std::string, std::vector<std::string>> names_by_file;
  for (const auto& [tensor, file] : files.places) names_by_file[file].push_back(tensor);
  std::vector<OutsideTensor> all;
  bool is_whole = true;
  for (const auto& [file, names] : names_by_file) {
    auto tensors = check.check_file(file, Content::kWeights);
    is_whole &= tensors.has_value();
    if (!tensors) continue;
    std::set<std::string> missing(names.begin(), names.end());
    for (OutsideTensor& tensor : *tensors) {
      if (missing.erase(tensor.info.name) == 0)
        check.add(fmt::format("{} is wrong about {}: {} has this tensor, and the index does not say so",
                              check.path(files.name), tensor.info.name, file));
      all.push_back(std::move(tensor));
    }
    for (const std::string& name : missing)
      check.add(fmt::format("{} is wrong about {}: {} lacks this tensor", check.path(files.name), name, file));
  }
  return is_whole ? std::optional(std::move(all)) : std::nullopt;
}

void check_hugging_face(FolderCheck& check, const Path& folder) {
  const Path config = folder / "config.json";
  std::optional<Description> description;
  if (!path_exists(config))
    check.add(fmt::format("{} is missing: it has the model's shape", config.string()));
  else
    check.attempt([&] {
      std::vector<std::string> notes;
      description = parse_hugging_face_config(read_file(config), config.string(), notes);
    });
  std::optional<HuggingFaceFiles> files;
  if (!check.attempt([&] { files = find_hugging_face_files(folder); })) return;
  if (!files->left_out.empty())
    check.found().unchecked.push_back(
        fmt::format("{}: the weights are those of {}", join(files->left_out), files->name));
  std::optional<std::vector<OutsideTensor>> tensors = check_indexed(check, *files);
  std::vector<std::string> notes;
  if (!description || !tensors ||
      !check.attempt([&] { *tensors = with_our_names(folder, *description, std::move(*tensors), notes); })) {
    check.found().unchecked.emplace_back("shapes, because of the problems above");
    return;
  }
  std::vector<mesh::TensorInfo> infos;
  for (const OutsideTensor& tensor : *tensors) infos.push_back(tensor.info);
  check.found().checked.emplace_back("config.json and the shapes");
  for (const std::string& problem : weight_problems(description->model, infos, Kind::kHuggingFace).all())
    check.add(fmt::format("{}: {}", folder.string(), problem));
  checkpoint::Reader reader = checkpoint::Reader::over(folder, std::move(*tensors));
  if (description->model.enable_weight_tying && reader.find(kOutput) != nullptr && !output_is_embedding(reader))
    check.add(fmt::format("{} says tie_word_embeddings = true, and lm_head.weight differs from the embedding",
                          config.string()));
}

void check_meta(FolderCheck& check, const FoundWeights& found) {
  for (const std::string& name : list_folder(found.folder)) {
    if (is_meta_file(name)) check.check_file(name, Content::kWeights);
  }
  // Opening joins the files: their numbers, their shapes, and equal copies of what every file has.
  check.attempt([&] {
    const Source source = open_source(found);
    check.found().checked.emplace_back("params.json, the files' count and the shapes");
    for (const std::string& problem :
         weight_problems(source.description->model, source.reader.tensors(), found.kind).all())
      check.add(fmt::format("{}: {}", found.folder.string(), problem));
  });
}

// GPT-NeoX and NxD: their files do not say what model they have.
void check_ranks(FolderCheck& check, const FoundWeights& found) {
  std::vector<std::string> names;
  for (const FileEntry& file : files_under(found.folder))
    if (file.path.extension() == ".pt") names.push_back(file.path.string());
  const auto is_layer = [](const std::string& name) { return Path(name).filename().string().starts_with("layer_"); };
  const bool by_layer = std::any_of(names.begin(), names.end(), is_layer);  // then mp_rank_ files have no weights
  for (const std::string& name : names) {
    const Path path(name);
    const std::string file = path.filename().string(), folder = path.parent_path().filename().string();
    Content content = Content::kAnything;
    if (found.kind == Kind::kNeox && file.ends_with("model_states.pt") && by_layer == file.starts_with("layer_"))
      content = by_layer ? Content::kDict : Content::kModule;
    if (found.kind == Kind::kNxd && folder.ends_with(".tensors"))
      content = Content::kOneTensor;
    else if (found.kind == Kind::kNxd && !file.ends_with(".info.pt") && folder != "optim")
      content = Content::kDict;
    check.check_file(name, content);
  }
  check.found().unchecked.emplace_back(
      "shapes: the files do not describe their model (`hearth convert --config` checks them)");
}

}  // namespace

WeightsCheck verify_weights(const FoundWeights& found, ConvertProgress& progress) {
  FolderCheck check(found.folder, progress);
  if (found.kind == Kind::kHuggingFace)
    check_hugging_face(check, found.folder);
  else if (found.kind == Kind::kMeta)
    check_meta(check, found);
  else
    check_ranks(check, found);
  return check.finish();
}

}  // namespace hearth::convert
