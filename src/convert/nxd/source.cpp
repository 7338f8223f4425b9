// AWS Neuron's NxD checkpoints: dicts of tensors with Hugging Face's names, one file for each rank of tensor parallel
// and each stage of the pipeline. Source: neuronx_distributed, trainer/checkpoint.py and parallel_layers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/quantity.h"
#include "convert/names.h"
#include "convert/nxd.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// Matrices that NxD joins: each rank has the rows of the first, then of the second, and so on.
struct JoinedRows {
  std::string_view nxd;
  std::vector<std::string_view> hugging_face;
};
const std::vector<JoinedRows>& joined_rows() {
  static const std::vector<JoinedRows> rows = {
      {"mlp.gate_up_proj.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}},
      {"self_attn.qkv_proj.weight_qkv",
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
      {"self_attn.qkv_proj.weight", {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}}};
  return rows;
}
// Other names of single matrices.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"self_attn.qkv_proj.weight_q", "self_attn.q_proj.weight"},
    {"self_attn.qkv_proj.weight_k", "self_attn.k_proj.weight"},
    {"self_attn.qkv_proj.weight_v", "self_attn.v_proj.weight"}};

// The tensors of one file, in its order. xser keeps each in a file of its own.
NxdTensors tensors_in(const Path& folder, const std::string& name) {
  const std::string origin = (folder / name).string();
  const File file = File::open_read(folder / name);
  formats::TorchFile found = formats::read_torch_file(file, origin);
  const bool in_model = found.tensors.empty() && found.references.empty() && found.others.size() == 1;
  if (in_model && found.others[0].name == "model") found = formats::read_torch_file(file, origin, "model");
  if (!found.others.empty())
    throw user_error(fmt::format("{}: {} is {}", origin, found.others[0].name, found.others[0].what),
                     "a model of NxD has weights only", "give the files of the model, not of the optimizer");
  NxdTensors tensors;
  for (formats::TorchTensor& tensor : found.tensors)
    tensors.emplace_back(std::move(tensor.name), RankPart{name, std::move(tensor.layout)});
  for (formats::TorchReference& reference : found.references) {
    const std::string part = fmt::format("{}.tensors/tensor_{}.pt", name, reference.id);
    if (!path_exists(folder / part))
      throw user_error(fmt::format("{} is missing", (folder / part).string()),
                       fmt::format("{} names it for {}", origin, reference.name), "copy the whole folder");
    formats::TorchTensor tensor = formats::read_torch_tensor(File::open_read(folder / part), (folder / part).string());
    tensors.emplace_back(std::move(reference.name), RankPart{part, std::move(tensor.layout)});
  }
  std::erase_if(tensors, [](const auto& tensor) { return is_computed(tensor.first); });
  return tensors;
}

// The tensors of all files, whose names begin with `prefix`: the model's folder within `root`.
std::map<NxdPlace, NxdTensors> read_model(const Path& root, const std::string& prefix) {
  std::map<NxdPlace, NxdTensors> model;
  int64_t ranks = 0, stages = 0;
  for (const NxdFile& file : nxd_files(root / prefix)) {
    ranks = std::max(ranks, file.tp + 1);
    stages = std::max(stages, file.pp + 1);
    if (model.contains({file.tp, file.pp}))
      throw user_error(fmt::format("{} has several files of tensor rank {} and stage {}", (root / prefix).string(),
                                   file.tp, file.pp),
                       "it is not known which is the model's", "keep one set of files");
    model[{file.tp, file.pp}] = tensors_in(root, prefix + file.name);
  }
  for (int64_t tp = 0; tp < ranks; ++tp) {
    for (int64_t pp = 0; pp < stages; ++pp) {
      if (!model.contains({tp, pp}))
        throw user_error(
            fmt::format("{} lacks the file of tensor rank {} and stage {}", (root / prefix).string(), tp, pp),
            fmt::format("there are files of {} ranks and {} stages", ranks, stages), "copy all files");
    }
  }
  return model;
}

// By name, then by rank of tensor parallel.
using NxdParts = std::map<std::string, RankParts>;

NxdParts parts_of(const std::map<NxdPlace, NxdTensors>& model, const Path& folder) {
  NxdParts parts;
  for (const auto& [place, tensors] : model) {
    for (const auto& [name, part] : tensors) {
      if (!parts[name].emplace(place.first, part).second)
        throw user_error(fmt::format("{}: {} is in two stages of the pipeline", folder.string(), name),
                         "it is not known which is the model's");
    }
  }
  return parts;
}

// The same of the optimizer's tensors: `part` takes one of a rank's.
template <typename Part>
NxdParts parts_of(const NxdState& state, const Part& part) {
  NxdParts parts;
  for (const auto& [place, moments] : state.moments) {
    for (const auto& [name, of_tensor] : moments) parts[name].emplace(place.first, part(of_tensor));
  }
  return parts;
}

class NxdReader {
 public:
  NxdReader(const Path& folder, NxdParts parts, const plan::ModelShape& shape)
      : folder_(folder), s_(shape), parts_(std::move(parts)) {
    for (const auto& [name, of_ranks] : parts_) ranks_ = std::max(ranks_, of_ranks.rbegin()->first + 1);
    HEARTH_CHECK(ranks_ > 0);
    if (s_.H % ranks_ != 0 || (s_.G % ranks_ != 0 && ranks_ % s_.G != 0))
      throw user_error(fmt::format("{} has the files of {} ranks, which do not divide the heads of [model]",
                                   folder_.string(), ranks_),
                       "[model] is another model's", "check --config");
  }

  std::vector<OutsideTensor> run() {
    for (const auto& [name, parts] : parts_) {
      check_parts(parts, ranks_, folder_, name);
      if (!add_joined(name, parts)) add(name, parts);
    }
    std::set<std::string> names;
    for (const OutsideTensor& tensor : found_) {
      if (!names.insert(tensor.info.name).second)
        throw user_error(fmt::format("{} has {} in two ways", folder_.string(), tensor.info.name),
                         "it is not known which is the model's");
    }
    return std::move(found_);
  }

 private:
  // Rows of a joined matrix's part, by Hearth's name.
  int64_t rows_of_rank(const std::string& hearth) const {
    if (hearth.find(".feed_forward.") != std::string::npos) return s_.F() / ranks_;
    return hearth.ends_with("wq.weight") ? s_.H / ranks_ * s_.K : std::max<int64_t>(1, s_.G / ranks_) * s_.K;
  }

  // Adds a matrix whose rows ranks share: all of theirs, or with copies of keys those of the first ranks.
  void add_heads(const std::string& hearth, const std::string& name, const RankParts& parts) {
    const int64_t count = parts.begin()->second.layout.sizes[0];
    const bool is_query = hearth.ends_with("wq.weight"),
               is_key = hearth.ends_with("wk.weight") || hearth.ends_with("wv.weight");
    const int64_t ranks = is_key ? std::min(ranks_, s_.G) : ranks_;
    OutsideTensor& tensor = found_.emplace_back(matrix_of(hearth, parts, count * ranks));
    for (const auto& [rank, part] : parts) {
      if (rank < ranks)
        add_rows(tensor, part, 0, count, is_query ? nxd_first_query(s_.H, s_.G, ranks_, rank) * s_.K : rank * count);
      else if (!same_elements(folder_, parts.at(rank % ranks), part))
        throw damaged(fmt::format("{}: {} differs between ranks {} and {}", folder_.string(), name, rank % ranks, rank),
                      "kv_size_multiplier gives both a copy of one part", "take another checkpoint");
    }
  }

  // The columns of wo go with the heads of queries.
  void add_outputs(const std::string& hearth, const std::string& name, const RankParts& parts) {
    const std::vector<int64_t>& sizes = parts.begin()->second.layout.sizes;
    if (sizes.size() != 2 || sizes[1] != s_.H / ranks_ * s_.K)
      throw user_error(fmt::format("{}: {} has shape {}, expected {} columns", folder_.string(), name,
                                   formats::format_shape(sizes), s_.H / ranks_ * s_.K),
                       "[model] is another model's", "give --config the keys of this model");
    OutsideTensor& tensor = found_.emplace_back(matrix_of(hearth, parts, sizes[0]));
    tensor.info.shape[1] = s_.H * s_.K;
    for (const auto& [rank, part] : parts)
      add_part(tensor, part, {0, nxd_first_query(s_.H, s_.G, ranks_, rank) * s_.K});
  }

  bool add_joined(const std::string& name, const RankParts& parts) {
    for (const JoinedRows& row : joined_rows()) {
      if (!name.ends_with(row.nxd)) continue;
      const std::string prefix = name.substr(0, name.size() - row.nxd.size());
      std::vector<std::string> names;
      int64_t rows = 0;
      for (const std::string_view theirs : row.hugging_face) {
        const auto hearth = from_hugging_face(prefix + std::string(theirs));
        if (!hearth) return false;
        names.push_back(*hearth);
        rows += rows_of_rank(*hearth);
      }
      require_rows(parts, folder_, name, rows);
      for (int64_t from = 0; const std::string& hearth : names) {
        const int64_t count = rows_of_rank(hearth);
        RankParts rows;
        for (const auto& [rank, part] : parts) rows[rank] = rows_of(part, from, count);
        add_heads(hearth, name, rows);
        from += count;
      }
      return true;
    }
    return false;
  }

  void add(const std::string& name, const RankParts& parts) {
    std::string theirs = name;
    bool is_module = false;
    for (const auto& [from, to] : kRenamed) {
      if (!theirs.ends_with(from)) continue;
      theirs.replace(theirs.size() - from.size(), from.size(), to);
      is_module = true;
    }
    const std::optional<std::string> hearth = from_hugging_face(theirs);
    if (!hearth)
      throw user_error(fmt::format("{}: {} is no weight of Llama's in NxD's names", folder_.string(), name),
                       "weights are never dropped silently");
    const std::optional<size_t> split = *hearth == "tok_embeddings.weight" ? 0 : meta_split(*hearth);
    const bool is_query = hearth->ends_with("wq.weight"),
               is_key = hearth->ends_with("wk.weight") || hearth->ends_with("wv.weight");
    const std::vector<int64_t>& sizes = parts.begin()->second.layout.sizes;
    if (is_key && sizes.size() == 2 && sizes[0] > rows_of_rank(*hearth))
      throw user_error(fmt::format("{}: {} has more rows than [model] has keys", folder_.string(), name),
                       "kv_size_multiplier copied the keys for fewer ranks than it is read with, or [model] is another "
                       "model's",
                       "merge the copies with NxD's convert_checkpoints.py, or check --config");
    if (ranks_ > s_.G && (is_query || is_key)) {
      if (!is_module)
        throw user_error(fmt::format("{} has the files of {} for {}, and {}", folder_.string(),
                                     hearth::counted(ranks_, "rank"), hearth::counted(s_.G, "key"), name),
                         "only the module qkv_proj has copies of keys", "check --config");
      require_rows(parts, folder_, name, rows_of_rank(*hearth));
      return add_heads(*hearth, name, parts);
    }
    if (ranks_ > s_.G && hearth->ends_with("attention.wo.weight")) return add_outputs(*hearth, name, parts);
    found_.push_back(joined(*hearth, parts, split));
  }

  const Path& folder_;
  const plan::ModelShape& s_;
  const NxdParts parts_;
  int64_t ranks_ = 0;
  std::vector<OutsideTensor> found_;
};

}  // namespace

Source open_nxd(const Path& folder, const Description* described) {
  if (described == nullptr)
    throw user_error(fmt::format("{} does not describe its model", folder.string()),
                     "NxD joins matrices, and only the model's sizes tell them apart",
                     "use `hearth convert --config RUN.toml`, with a run file whose [model] is this model's");
  Description description = *described;
  description.model.rope_pairs = config::RopePairs::kHalves;
  const plan::ModelShape shape = plan::model_shape(description.model, 0);
  const Path model_folder = nxd_model_folder(folder);
  // The optimizer's folder lies beside the model's.
  const bool in_step = normal_path(model_folder) != normal_path(folder) && model_folder.filename() == "model";
  const Path root = in_step ? model_folder.parent_path() : model_folder;
  const std::map<NxdPlace, NxdTensors> model = read_model(root, in_step ? "model/" : "");
  const auto read = [&](NxdParts parts) { return NxdReader(root, std::move(parts), shape).run(); };
  const std::optional<NxdState> state = in_step ? read_nxd_state(root, model) : std::nullopt;
  if (!state)
    return {Kind::kNxd, checkpoint::Reader::over(root, read(parts_of(model, root))), std::move(description), {}};
  // The training computes with the optimizer's weights where it saved them: the model's are rounded from them.
  std::vector<OutsideTensor> tensors = read(
      state->has_weights ? parts_of(*state, [](const NxdMoments& of) { return *of.weight; }) : parts_of(model, root));
  const auto add = [&](std::string (*name)(const std::string&), const NxdParts& parts) {
    for (OutsideTensor& tensor : read(parts)) {
      tensor.info.name = name(tensor.info.name);
      tensors.push_back(std::move(tensor));
    }
  };
  add(plan::exp_avg_name, parts_of(*state, [](const NxdMoments& of) { return of.exp_avg; }));
  add(plan::exp_avg_sq_name, parts_of(*state, [](const NxdMoments& of) { return of.exp_avg_sq; }));
  return {Kind::kNxd, checkpoint::Reader::over(root, std::move(tensors)), std::move(description), {}, state->training};
}

}  // namespace hearth::convert
