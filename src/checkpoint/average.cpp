// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/average.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/disk_space.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/verify.h"
#include "config/load.h"
#include "config/resume.h"
#include "formats/cast.h"
#include "formats/type_names.h"
#include "plan/tensor_names.h"

namespace hearth::checkpoint {
namespace {

// An item of the result has at most about so many elements, or one row.
constexpr int64_t kPortionElements = int64_t{1} << 22;
constexpr size_t kDifferencesNamed = 8;

struct Input {
  Reader reader;
  double weight;
  std::vector<mesh::TensorInfo> weights;
  std::string folder() const { return reader.folder().string(); }
  const Manifest& manifest() const { return reader.manifest(); }
};

int64_t bytes_of(const mesh::TensorInfo& info) { return mesh::Box{{}, info.shape}.numel() * dtype_size(info.dtype); }

Input open_input(const AverageInput& given) {
  if (!(given.weight > 0) || !std::isfinite(given.weight))
    throw user_error(fmt::format("{} has the weight {}", given.folder.string(), given.weight),
                     "a weight is a number above 0", "leave a checkpoint out that should not count");
  Input input{Reader::open(given.folder), given.weight, {}};
  if (!input.reader.has_manifest())
    throw user_error(fmt::format("{} has no {}", input.folder(), kManifestFile),
                     "without it, the model and the tokenizer of the weights are not known",
                     "convert it first: hearth convert --to native FOLDER OUT");
  for (const mesh::TensorInfo& tensor : input.reader.tensors()) {
    if (plan::is_optimizer_state(tensor.name)) continue;
    if (!is_floating_point(tensor.dtype))
      throw user_error(fmt::format("{}: {} is {}", input.folder(), tensor.name, dtype_name(tensor.dtype)),
                       "whole numbers have no mean", "average checkpoints of models with real weights");
    input.weights.push_back(tensor);
  }
  return input;
}

// Keys of [objective] by which weights mean something else.
bool decides_meaning(std::string_view key) {
  return key == "objective.kind" || key == "objective.shift_logits" || key == "objective.mask_id" ||
         key == "objective.mask_token";
}

// The differences of two files' models that change what weights mean, a line each.
std::vector<std::string> model_differences(const Input& a, const Input& b) {
  const auto run_of = [](const Input& input) {
    return config::from_toml_text(input.manifest().config_toml, (input.reader.folder() / kManifestFile).string(), ".");
  };
  std::vector<std::string> lines;
  for (const config::Difference& d : config::differences(run_of(a), run_of(b)))
    if (d.name.starts_with("model.") || decides_meaning(d.name)) lines.push_back(config::describe(d));
  return lines;
}

std::vector<std::string> weight_differences(const Input& a, const Input& b) {
  std::vector<std::string> lines;
  const auto text = [](const mesh::TensorInfo& info) {
    return fmt::format("{} {}", dtype_name(info.dtype), formats::format_shape(info.shape));
  };
  for (const mesh::TensorInfo& tensor : a.weights) {
    const auto other = std::ranges::find(b.weights, tensor.name, &mesh::TensorInfo::name);
    if (other == b.weights.end())
      lines.push_back(fmt::format("{}: missing in the second", tensor.name));
    else if (*other != tensor)
      lines.push_back(fmt::format("{}: {} and {}", tensor.name, text(tensor), text(*other)));
  }
  for (const mesh::TensorInfo& tensor : b.weights)
    if (std::ranges::find(a.weights, tensor.name, &mesh::TensorInfo::name) == a.weights.end())
      lines.push_back(fmt::format("{}: missing in the first", tensor.name));
  return lines;
}

void require_alike(const Input& a, const Input& b) {
  const auto refuse = [&](std::string_view what, const std::vector<std::string>& lines, const char* why) {
    throw user_error(fmt::format("{} and {} have different {}:\n    {}", a.folder(), b.folder(), what,
                                 join_first(lines, kDifferencesNamed, "\n    ")),
                     why, "give checkpoints of one run, or of runs with one model and one tokenizer");
  };
  if (const auto lines = model_differences(a, b); !lines.empty())
    refuse("models", lines, "weights mean something else under other keys, also where their shapes are equal");
  const Manifest &m = a.manifest(), &n = b.manifest();
  const auto tokens = [](const Manifest& of) {
    return fmt::format("{} ({}), BOS {}, EOS {}", of.tokenizer, of.tokenizer_hash, of.bos, of.eos);
  };
  if (tokens(m) != tokens(n)) refuse("tokenizers", {tokens(m), tokens(n)}, "an id would mean two texts");
  if (const auto lines = weight_differences(a, b); !lines.empty()) refuse("weights", lines, "there is no mean of them");
}

// The checksums of the weights, in the order of hearth.json.
std::vector<uint64_t> checksums(const Input& input) {
  std::vector<uint64_t> all;
  for (const formats::Item& item : input.manifest().items)
    if (!plan::is_optimizer_state(item.name)) all.push_back(item.checksum);
  return all;
}

std::vector<Input> open_inputs(std::span<const AverageInput> given) {
  if (given.size() < 2)
    throw user_error("a mean needs two checkpoints or more", fmt::format("{} was given", given.size()),
                     "name the folders of several steps");
  std::vector<Input> inputs;
  for (const AverageInput& one : given) {
    Input input = open_input(one);
    for (const Input& before : inputs) {
      if (checksums(before) != checksums(input)) continue;
      throw user_error(fmt::format("{} and {} have the same weights", before.folder(), input.folder()),
                       "one checkpoint would count twice", "name it once, with a larger --weights");
    }
    if (!inputs.empty()) require_alike(inputs.front(), input);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Boxes of whole rows that cover the tensor.
std::vector<mesh::Box> portions_of(const mesh::TensorInfo& info) {
  const mesh::Box whole{std::vector<int64_t>(info.shape.size()), info.shape};
  if (info.shape.empty() || whole.numel() <= kPortionElements) return {whole};
  const int64_t rows = info.shape[0], step = std::max<int64_t>(1, kPortionElements / (whole.numel() / rows));
  std::vector<mesh::Box> boxes;
  for (int64_t row = 0; row < rows; row += step) {
    boxes.push_back(whole);
    boxes.back().offsets[0] = row;
    boxes.back().sizes[0] = std::min(step, rows - row);
  }
  return boxes;
}

// The mean of one box of a tensor, in the tensor's type.
void average_box(std::vector<Input>& inputs, const mesh::TensorInfo& info, const mesh::Box& box,
                 std::vector<std::byte>& mean, AverageProgress& progress) {
  const auto count = static_cast<size_t>(box.numel());
  std::vector<double> sums(count);
  std::vector<std::byte> stored(count * static_cast<size_t>(dtype_size(info.dtype))), wide;
  double weights = 0;
  for (Input& input : inputs) {
    input.reader.read(info.name, box, stored);
    if (formats::has_nonfinite(stored, info.dtype))
      throw user_error(fmt::format("{}: {} has an element that is NaN or infinite", input.folder(), info.name),
                       "so would be the mean", "leave this checkpoint out");
    formats::cast(stored, info.dtype, DType::kFloat64, wide);
    for (size_t i = 0; i < count; ++i) {
      double element = 0;
      std::memcpy(&element, wide.data() + i * sizeof element, sizeof element);
      sums[i] += input.weight * element;
    }
    weights += input.weight;
    progress.done_bytes += static_cast<int64_t>(stored.size());
  }
  for (double& sum : sums) sum /= weights;
  formats::cast(std::as_bytes(std::span(sums)), DType::kFloat64, info.dtype, mean);
}

Manifest manifest_of(const std::vector<Input>& inputs, const Input& newest) {
  Manifest manifest = newest.manifest();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Input& input : inputs)
    list.push_back({{"name", input.reader.folder().filename().string()},
                    {"step", input.manifest().step},
                    {"created", input.manifest().created},
                    {"weight", input.weight}});
  manifest.states.erase("health");  // of losses that these weights do not have
  manifest.states[kAverageState] = nlohmann::ordered_json{{"inputs", list}}.dump();
  manifest.metrics.clear();
  manifest.optimizer_start = 0;
  manifest.parent = newest.reader.folder().filename().string();
  manifest.tokenizer_file = newest.reader.open_tokenizer()->file_content();
  manifest.libtorch_version.clear();
  manifest.ranks = 1;
  stamp(manifest);
  return manifest;
}

// The folder of a mean that is not finished, on a disk: removed with this object, unless it has its final name.
struct Draft {
  explicit Draft(const Path& out) : folder(is_object(out) ? out : Path(out.string() + kTemporarySuffix)) {}
  ~Draft() {
    std::error_code ignored;
    if (!is_object(folder)) std::filesystem::remove_all(folder, ignored);
  }
  Draft(const Draft&) = delete;
  const Path folder;
};

void require_whole(const Path& out) {
  const Verification found = verify_checkpoint(out);
  if (!found.problems.empty())
    throw damaged(fmt::format("{} was written and is damaged", out.string()), found.problems.front(),
                  "remove it, and check the disk");
}

}  // namespace

Averaged average_checkpoints(std::span<const AverageInput> given, const Path& folder, AverageProgress& progress) {
  const Path normal = normal_path(folder), out = normal.has_filename() ? normal : normal.parent_path();
  if (path_exists(out)) throw user_error(fmt::format("{} exists already", out.string()), "", "choose another --out");
  std::vector<Input> inputs = open_inputs(given);
  const Input& newest = *std::ranges::max_element(inputs, {}, [](const Input& i) { return i.manifest().step; });
  Averaged result{.step = newest.manifest().step};
  for (const mesh::TensorInfo& tensor : newest.weights) result.bytes += bytes_of(tensor), ++result.tensors;
  progress.all_bytes = result.bytes * std::ssize(inputs);
  Manifest manifest = manifest_of(inputs, newest);
  if (!is_object(out))
    require_disk_space(out, result.bytes, "the mean", "choose another --out, or make room on this disk");
  const Draft draft(out);
  begin_save(draft.folder);
  RankFile file(draft.folder, 0);
  std::vector<std::byte> mean;
  for (const mesh::TensorInfo& tensor : newest.weights) {
    for (const mesh::Box& box : portions_of(tensor)) {
      average_box(inputs, tensor, box, mean, progress);
      file.add({tensor, box, mean});
    }
  }
  const std::string items = file.finish();
  commit(draft.folder, out, std::vector{items}, std::move(manifest));
  require_whole(out);
  return result;
}

}  // namespace hearth::checkpoint
