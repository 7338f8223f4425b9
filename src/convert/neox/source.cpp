// GPT-NeoX's checkpoints: dicts of tensors of its layers, one file for each layer and rank, or one for each rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "convert/names.h"
#include "convert/neox/files.h"
#include "convert/neox/zero_state.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// By layer and name in the layer.
using Parts = std::map<std::pair<int64_t, std::string>, RankParts>;

// The files of layers where there are any, else those of ranks.
Parts read_parts(const Path& folder) {
  Parts parts;
  const std::vector<std::string> names = list_folder(folder);
  const bool by_layer =
      std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("layer_"); });
  for (const std::string& name : names) {
    if (!name.starts_with(by_layer ? "layer_" : "mp_rank_") || !name.ends_with("model_states.pt")) continue;
    const std::string origin = (folder / name).string();
    const std::optional<NeoxFile> file = neox_file(name);
    if (!file) throw user_error(fmt::format("{} belongs to no layer or rank", origin), "GPT-NeoX's names have numbers");
    const formats::TorchFile found =
        formats::read_torch_file(File::open_read(folder / name), origin, by_layer ? "" : "module");
    for (const formats::TorchTensor& tensor : found.tensors) {
      const auto place = by_layer ? NeoxTensorName{file->layer, tensor.name} : neox_tensor_name(tensor.name);
      if (!place)
        throw user_error(fmt::format("{}: {} belongs to no layer", origin, tensor.name),
                         "GPT-NeoX's names have numbers");
      if (!is_computed("." + place->rest)) parts[{place->layer, place->rest}][file->rank] = {name, tensor.layout};
    }
  }
  return parts;
}

int64_t ranks_of(const Parts& parts) {
  int64_t ranks = 0;
  for (const auto& [key, of_ranks] : parts) ranks = std::max(ranks, std::ssize(of_ranks));
  return ranks;
}

using ZeroParts = std::map<std::pair<int64_t, std::string>, std::map<int64_t, const ZeroParameter*>>;

// The optimizer's parameters by layer and name in the layer, and by rank of tensor parallel.
ZeroParts zero_parts(const ZeroState& zero, const Parts& model, const Path& folder) {
  ZeroParts parts;
  const int64_t ranks = ranks_of(model);
  for (const auto& [rank, parameters] : zero.parameters) {
    for (const auto& [name, parameter] : parameters) {
      const std::optional<NeoxTensorName> place = neox_tensor_name(name);
      if (!place || !model.contains({place->layer, place->rest}))
        throw user_error(fmt::format("{}: the model has no {}, whose moments are there", folder.string(), name),
                         "weights are never dropped silently", "copy all files");
      // The last stage has tied weights again. Those of the first stage are in the layer's file, too.
      const bool is_new = parts[{place->layer, place->rest}].emplace(rank % ranks, &parameter).second;
      if (!is_new && !name.starts_with(kNeoxTied))
        throw user_error(fmt::format("{}: two stages have the moments of {}", folder.string(), name),
                         "the files are of two saves with other numbers of stages", "keep one set of files");
    }
  }
  return parts;
}

// The same tensors with other values of the same shapes: runs of ZeRO's slices.
Parts parts_of(const ZeroState& zero, std::vector<FlatRun> ZeroParameter::*runs, const Parts& model,
               const Path& folder) {
  ZeroParts by_place = zero_parts(zero, model, folder);
  Parts parts;
  for (const auto& [key, of_ranks] : model) {
    for (const auto& [rank, part] : of_ranks) {
      const auto found = by_place[key].find(rank);
      const std::vector<FlatRun> none;
      const std::vector<FlatRun>& there = found == by_place[key].end() ? none : found->second->*runs;
      const int64_t numel = mesh::Box{{}, part.layout.sizes}.numel(),
                    covered = there.empty() ? 0 : there.back().begin + there.back().count;
      if (covered != numel)
        throw user_error(fmt::format("{} has {} of {} elements of the moments of {} in layer {}", folder.string(),
                                     covered, numel, key.second, key.first),
                         "the optimizer's files of a rank are missing, or of another model", "copy all files");
      RankPart& slices = parts[key][rank];
      slices.layout = {found->second->dtype, part.layout.sizes, {}, 0};
      slices.layout.strides.assign(part.layout.sizes.size(), 1);
      for (size_t d = part.layout.sizes.size(); d-- > 1;)
        slices.layout.strides[d - 1] = slices.layout.strides[d] * part.layout.sizes[d];
      slices.runs = there;
    }
  }
  return parts;
}

class NeoxReader {
 public:
  NeoxReader(const Path& folder, Parts parts, const plan::ModelShape& shape, std::optional<QkvLayout> layout)
      : folder_(folder), s_(shape), layout_(layout), parts_(std::move(parts)), ranks_(ranks_of(parts_)) {}

  std::vector<OutsideTensor> run() {
    if (ranks_ == 0 || s_.H % ranks_ != 0 || s_.G % ranks_ != 0)
      throw user_error(fmt::format("{} has the files of {} ranks, which do not divide the heads of [model]",
                                   folder_.string(), ranks_));
    whole(0, "word_embeddings.weight", "tok_embeddings.weight", 0);
    for (int64_t i = 0; i < s_.L(); ++i) layer(i);
    whole(s_.L() + 3, "norm.scale", "norm.weight", {});
    if (!s_.tied) output_matrix();
    if (!parts_.empty())
      throw user_error(fmt::format("{}: layer {} has {}, which Hearth's model lacks", folder_.string(),
                                   parts_.begin()->first.first, parts_.begin()->first.second),
                       "weights are never dropped silently", "give --config the keys of this model");
    return std::move(found_);
  }

 private:
  // Takes a tensor's parts of all ranks, which have one shape.
  RankParts take(int64_t layer, const std::string& name) {
    const auto found = parts_.find({layer, name});
    if (found == parts_.end() || std::ssize(found->second) != ranks_ || found->second.rbegin()->first != ranks_ - 1)
      throw user_error(fmt::format("{} lacks {} of layer {}", folder_.string(), name, layer),
                       "a file is missing, or [model] is another model's", "copy all files, and check --config");
    RankParts parts = std::move(found->second);
    parts_.erase(found);
    check_parts(parts, ranks_, folder_, name);
    return parts;
  }

  // A tensor that ranks share along `split`, or have in full.
  void whole(int64_t layer, const std::string& name, const std::string& hearth, std::optional<size_t> split) {
    found_.push_back(joined(hearth, take(layer, name), split));
  }

  void output_matrix() {
    const char* name = "final_linear.weight";
    if (!parts_.contains({s_.L() + 4, name}))
      throw user_error(fmt::format("{} has no {}", folder_.string(), name),
                       "its weights are tied, or a file is missing",
                       "set model.enable_weight_tying = true in the run file, or copy all files");
    whole(s_.L() + 4, name, "output.weight", 0);
  }

  void layer(int64_t i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    whole(i + 2, "input_layernorm.scale", prefix + "attention_norm.weight", {});
    whole(i + 2, "post_attention_layernorm.scale", prefix + "ffn_norm.weight", {});
    whole(i + 2, "attention.dense.weight", prefix + "attention.wo.weight", 1);
    const bool by_name = parts_.contains({i + 2, "mlp.w1.weight"});
    queries_keys_values(i + 2, prefix, by_name);
    if (by_name) {
      whole(i + 2, "mlp.w1.weight", prefix + "feed_forward.w1.weight", 0);
      whole(i + 2, "mlp.w3.weight", prefix + "feed_forward.w3.weight", 0);
      whole(i + 2, "mlp.w2.weight", prefix + "feed_forward.w2.weight", 1);
      return;
    }
    whole(i + 2, "mlp.linear2.weight", prefix + "feed_forward.w2.weight", 1);
    // Each rank has [up; gate].
    const RankParts parts = take(i + 2, "mlp.linear1.weight");
    const int64_t rows = s_.F() / ranks_;
    require_rows(parts, folder_, "mlp.linear1.weight", 2 * rows);
    OutsideTensor gate = matrix_of(prefix + "feed_forward.w1.weight", parts, s_.F()), up = gate;
    up.info.name = prefix + "feed_forward.w3.weight";
    for (const auto& [rank, part] : parts) {
      add_rows(up, part, 0, rows, rank * rows);
      add_rows(gate, part, rows, rows, rank * rows);
    }
    found_.push_back(std::move(gate));
    found_.push_back(std::move(up));
  }

  void queries_keys_values(int64_t layer, const std::string& prefix, bool slots_by_name) {
    const std::string name = "attention.query_key_value.weight";
    const RankParts parts = take(layer, name);
    const int64_t K = s_.K, queries = s_.H / ranks_, keys = s_.G / ranks_;
    require_rows(parts, folder_, name, (queries + 2 * keys) * K);
    // With as many keys as queries both names of the feed-forward have slots: [q | k | v] of a head.
    if (s_.H != s_.G && !slots_by_name && !layout_)
      throw user_error(fmt::format("{}: the order of queries, keys and values is not known", folder_.string()),
                       "versions of GPT-NeoX before and after November 2024 differ, and shapes are equal",
                       "give `hearth convert` --qkv-layout split or slots; the right one has the lower loss");
    const bool slots = s_.H == s_.G || (layout_ ? *layout_ == QkvLayout::kSlots : slots_by_name);
    OutsideTensor q = matrix_of(prefix + "attention.wq.weight", parts, s_.H * K);
    OutsideTensor k = matrix_of(prefix + "attention.wk.weight", parts, s_.G * K);
    OutsideTensor v = matrix_of(prefix + "attention.wv.weight", parts, s_.G * K);
    for (const auto& [rank, part] : parts) {
      const int64_t first_q = rank * queries * K, first_k = rank * keys * K, share = K * keys / queries;
      if (!slots) {
        add_rows(q, part, 0, queries * K, first_q);
        add_rows(k, part, queries * K, keys * K, first_k);
        add_rows(v, part, (queries + keys) * K, keys * K, first_k);
        continue;
      }
      if (share * queries != K * keys)
        throw user_error(fmt::format("{}: {} heads cannot share {} keys in slots", folder_.string(), s_.H, s_.G));
      for (int64_t slot = 0; slot < queries; ++slot) {
        const int64_t from = slot * (K + 2 * share);
        add_rows(q, part, from, K, first_q + slot * K);
        add_rows(k, part, from + K, share, first_k + slot * share);
        add_rows(v, part, from + K + share, share, first_k + slot * share);
      }
    }
    for (OutsideTensor* tensor : {&q, &k, &v}) found_.push_back(std::move(*tensor));
  }

  const Path& folder_;
  const plan::ModelShape s_;
  std::optional<QkvLayout> layout_;
  Parts parts_;
  int64_t ranks_;
  std::vector<OutsideTensor> found_;
};

// The folder of a step. In the folder above, `latest` names it.
Path step_folder_of(const Path& folder) {
  if (!path_exists(folder / "latest")) return folder;
  std::string name = read_file(folder / "latest");
  while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
  if (name.empty() || name.find('/') != std::string::npos || name.starts_with(".") || !path_exists(folder / name))
    throw user_error(fmt::format("{} names \"{}\", which is no folder there", (folder / "latest").string(), name), {},
                     "give the folder of a step, such as global_step1000");
  return folder / name;
}

}  // namespace

Source open_neox(const Path& folder, const Description* described, std::optional<QkvLayout> layout) {
  if (described == nullptr)
    throw user_error(fmt::format("{} does not describe its model", folder.string()),
                     "GPT-NeoX joins matrices, and only the numbers of heads tell them apart",
                     "use `hearth convert --config RUN.toml`, with a run file whose [model] is this model's");
  Description description = *described;
  description.model.rope_pairs = config::RopePairs::kHalves;
  const Path step = step_folder_of(folder);
  const plan::ModelShape shape = plan::model_shape(description.model, 0);
  const Parts parts = read_parts(step);
  const std::optional<ZeroState> zero = read_zero_state(step);
  const auto read = [&](Parts of) { return NeoxReader(step, std::move(of), shape, layout).run(); };
  if (!zero) return {Kind::kNeox, checkpoint::Reader::over(step, read(parts)), std::move(description), {}};
  // The training computes with the optimizer's weights: those of the model's files are rounded from them.
  std::vector<OutsideTensor> tensors = read(parts_of(*zero, &ZeroParameter::weight, parts, step));
  using Name = std::string (*)(const std::string&);
  for (const auto& [runs, name] :
       {std::pair<std::vector<FlatRun> ZeroParameter::*, Name>{&ZeroParameter::exp_avg, plan::exp_avg_name},
        {&ZeroParameter::exp_avg_sq, plan::exp_avg_sq_name}}) {
    for (OutsideTensor& tensor : read(parts_of(*zero, runs, parts, step))) {
      tensor.info.name = name(tensor.info.name);
      tensors.push_back(std::move(tensor));
    }
  }
  return {Kind::kNeox, checkpoint::Reader::over(step, std::move(tensors)), std::move(description), {}, zero->training};
}

}  // namespace hearth::convert
