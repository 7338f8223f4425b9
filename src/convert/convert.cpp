#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/load.h"
#include "convert/names.h"
#include "convert/source.h"
#include "convert/target.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr const char* kWorkSuffix = ".convert.tmp";
constexpr size_t kNamesShown = 6;
constexpr const char* kOutputName = "output.weight";

std::string some_of(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kNamesShown)));
  const size_t more = names.size() - first.size();
  return join(first) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

config::RunConfig keys_of(const Path& run_file) {
  const config::LoadResult loaded = config::read_run(run_file, {});
  config::throw_all(loaded, {});
  return loaded.config;
}

Description described_by(const config::RunConfig& run) {
  Description d;
  d.model = run.model;
  d.objective = run.objective.kind;
  d.max_positions = run.training.seq_len;
  return d;
}

Source open_described(const Options& options, const std::optional<config::RunConfig>& run) {
  const Found found = find_weights(options.in, options.from);
  const bool is_silent = found.kind == Kind::kDcp || found.kind == Kind::kNeox || found.kind == Kind::kNxd;
  if (!is_silent && !options.config.empty())
    throw user_error("--config is for folders of PyTorch's DCP, GPT-NeoX and NxD",
                     fmt::format("{} describes its model itself", found.folder.string()), "leave it out");
  if (found.kind != Kind::kNeox && options.qkv_layout)
    throw user_error("--qkv-layout is for GPT-NeoX's folders",
                     fmt::format("{} is of the kind {}", found.folder.string(), kind_name(found.kind)), "leave it out");
  const bool same_program = options.to == Kind::kDcp && found.kind == Kind::kDcp;
  if (is_silent && options.config.empty() && !same_program)
    throw user_error(fmt::format("{} does not describe its model", found.folder.string()),
                     "its weights have names and shapes only",
                     "give --config RUN.toml: a run file whose [model] is this model's");
  if (!run) return open_source(found);
  const Description description = described_by(*run);
  Source source = open_source(found, &description, options.qkv_layout);
  if (!source.description) source.description = description;
  return source;
}

// Makes every size of [model] explicit, and finds weights that are tied though the format cannot say so.
void complete(Source& source) {
  config::Model& m = source.description->model;
  if (m.vocab_size == 0) {
    if (const mesh::TensorInfo* embedding = source.reader.find("tok_embeddings.weight"))
      m.vocab_size = embedding->shape.front();
  }
  const plan::ModelShape shape = plan::model_shape(m, 0);
  m.n_kv_heads = shape.G;
  m.hidden_dim = shape.F;
  m.flavor.clear();
  m.ffn_dim_multiplier = 0;
  if (source.reader.find(kOutputName) == nullptr || (!m.enable_weight_tying && source.kind != Kind::kMeta)) return;
  const bool same = same_elements(source.reader, kOutputName, "tok_embeddings.weight");
  if (m.enable_weight_tying && !same)
    throw user_error(fmt::format("{}: output.weight differs from the embedding", source.reader.folder().string()),
                     "model.enable_weight_tying says that they are one matrix", "set it to false");
  if (same && !m.enable_weight_tying)
    source.notes.emplace_back("output.weight equals the embedding: the weights are tied");
  m.enable_weight_tying = same;
}

// The model's parameters, each of which the source must have. Weights that are no parameters are refused by name.
std::vector<Transfer> parameters_of(Source& source) {
  const config::Model& m = source.description->model;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(m, 0));
  std::vector<std::string> problems;
  std::vector<Transfer> tensors;
  for (const plan::Parameter& p : plan.parameters) {
    const mesh::TensorInfo* found = source.reader.find(p.name);
    if (found == nullptr) {
      problems.push_back(fmt::format("{}: missing", p.name));
    } else if (found->shape != p.shape || !is_floating_point(found->dtype)) {
      problems.push_back(fmt::format("{}: {} {}, expected {}", p.name, dtype_name(found->dtype),
                                     formats::format_shape(found->shape), formats::format_shape(p.shape)));
    } else {
      tensors.push_back({p.name, {p.name, found->dtype, p.shape}});
    }
  }
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    std::string_view name = tensor.name;
    if (name.starts_with("model.")) name.remove_prefix(6);
    const bool tied_copy = m.enable_weight_tying && name == kOutputName;
    if (!is_state(name) && !tied_copy && plan.find(std::string(name)) < 0)
      problems.push_back(fmt::format("{}: the model has no such weight", tensor.name));
  }
  if (!problems.empty())
    throw user_error(fmt::format("{} does not have the weights of the model that it describes: {}",
                                 source.reader.folder().string(), some_of(problems)),
                     "weights are never dropped or made up", "take the files of one model, all of them");
  return tensors;
}

// Every tensor under its own name: for folders of PyTorch that become folders of PyTorch.
std::vector<Transfer> all_of(const Source& source) {
  std::vector<Transfer> tensors;
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    std::string name = tensor.name;
    if (name.starts_with("model.")) name.erase(0, 6);
    tensors.push_back({tensor.name, {name, tensor.dtype, tensor.shape}});
  }
  return tensors;
}

// The type of the weights where all have one; the widest where they differ.
DType widest(const std::vector<Transfer>& tensors) {
  const auto rank = [](DType dtype) { return dtype == DType::kFloat64 ? 2 : dtype == DType::kFloat32 ? 1 : 0; };
  DType found = tensors.front().to.dtype;
  for (const Transfer& tensor : tensors) {
    if (rank(tensor.to.dtype) > rank(found)) found = tensor.to.dtype;
    if (rank(found) == 0 && tensor.to.dtype != found) found = DType::kFloat32;  // bfloat16 and float16
  }
  return found;
}

// Moments in a native checkpoint have the type of its weights. Elsewhere a training's state keeps its own.
DType set_types(std::vector<Transfer>& tensors, const Options& options, std::vector<std::string>& notes) {
  const auto has_weights_type = [&](const Transfer& tensor) {
    return !is_state(tensor.to.name) || options.to == Kind::kNative;
  };
  std::vector<Transfer> weights;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(weights), has_weights_type);
  if (weights.empty()) throw user_error(fmt::format("{} has no weights", options.in.string()));
  DType dtype = options.dtype.value_or(widest(weights));
  if (options.to == Kind::kNative) {
    if (dtype == DType::kFloat16 && options.dtype)
      throw user_error("--dtype float16 has no home in a native checkpoint", "Hearth computes no float16",
                       "give bfloat16 or float32");
    if (dtype == DType::kFloat16) {
      dtype = DType::kFloat32;
      notes.emplace_back("float16 becomes float32, which has the same values: Hearth computes no float16");
    }
  }
  // A native checkpoint has one type. Others keep what they get.
  if (!options.dtype && options.to != Kind::kNative) return dtype;
  for (Transfer& tensor : tensors) {
    if (has_weights_type(tensor)) tensor.to.dtype = dtype;
  }
  return dtype;
}

std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(const Source& source, const Options& options,
                                                    std::vector<std::string>& notes) {
  if (!options.tokenizer.empty()) return tokenizer::open_tokenizer(options.tokenizer);
  if (source.kind == Kind::kNative) return source.reader.open_tokenizer();
  const Path& folder = source.reader.folder();
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (path_exists(folder / name)) return tokenizer::open_tokenizer((folder / name).string());
  }
  if (options.to != Kind::kNative) return nullptr;
  const int64_t size = source.description->model.vocab_size;
  notes.push_back(fmt::format("{} has no tokenizer: the checkpoint has {} tokens without text (--tokenizer gives one)",
                              folder.string(), size));
  return tokenizer::open_tokenizer(fmt::format("ids:{}", size));
}

config::RopePairs pairs_for(const Source& source, const Options& options) {
  switch (options.to) {
    case Kind::kHuggingFace:
    case Kind::kNeox:
    case Kind::kNxd:
      return config::RopePairs::kHalves;
    case Kind::kMeta:
    case Kind::kDcp:  // torchtitan's models
    case Kind::kTorchtitan:
      return config::RopePairs::kInterleaved;
    case Kind::kNative:
      break;
  }
  return options.rope_pairs.value_or(source.description->model.rope_pairs);
}

void check_options(const Options& options) {
  if (path_exists(options.out))
    throw user_error(fmt::format("{} exists", options.out.string()), "a conversion overwrites nothing",
                     "give another name, or remove it");
  if (options.rope_pairs && options.to != Kind::kNative)
    throw user_error(fmt::format("--rope-pairs does not go with --to {}", kind_name(options.to)),
                     "the format has one order", "leave it out");
  if (options.to == Kind::kNeox && !options.to_layout)
    throw user_error("--to neox needs --to-qkv-layout", "versions of GPT-NeoX differ in it, and shapes are equal",
                     "give slots for Llemma's branch, split for GPT-NeoX since November 2024");
  if (options.to != Kind::kNeox && options.to_layout)
    throw user_error(fmt::format("--to-qkv-layout does not go with --to {}", kind_name(options.to)),
                     "it is about GPT-NeoX's files", "leave it out");
  if (options.to != Kind::kNxd && options.nxd)
    throw user_error(fmt::format("--nxd-names, --nxd-qkv, --xser and --pipeline-parallel do not go with --to {}",
                                 kind_name(options.to)),
                     "they are about NxD's files", "leave them out");
  const bool has_ranks = options.to == Kind::kNeox || options.to == Kind::kMeta || options.to == Kind::kNxd;
  if (!has_ranks && options.tensor_parallel != 1)
    throw user_error(fmt::format("--tensor-parallel does not go with --to {}", kind_name(options.to)),
                     "only files of meta, neox and nxd are those of ranks", "leave it out");
}

std::vector<std::string> write(const Path& work, const Options& options, const Model& model, const Source& source,
                               Progress& progress) {
  switch (options.to) {
    case Kind::kNative:
      return write_native(work, options.out, model, source.kind == Kind::kNative ? &source.reader.manifest() : nullptr,
                          progress);
    case Kind::kDcp:
      return write_dcp(work, model, progress);
    case Kind::kTorchtitan:
      return write_torchtitan(work, model, progress);
    case Kind::kHuggingFace:
      return write_hugging_face(work, model, progress);
    case Kind::kMeta:
      return write_meta(work, model, progress);
    case Kind::kNeox:
      return write_neox(work, model, progress);
    case Kind::kNxd:
      return write_nxd(work, model, progress);
  }
  HEARTH_CHECK(false, "kind {}", static_cast<int>(options.to));
}

Path without_slash(const Path& path) {
  const Path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

Result convert(const Options& options, Progress& progress) {
  check_options(options);
  std::optional<config::RunConfig> run;
  if (!options.config.empty()) run = keys_of(options.config);
  Source source = open_described(options, run);
  Result result{source.kind, 0, 0, 0, {}};
  std::vector<Transfer> tensors;
  if (source.description) {
    complete(source);
    tensors = parameters_of(source);
  }
  // A folder of PyTorch has a home for all that another one has.
  const bool with_state = options.to == Kind::kDcp && (source.kind == Kind::kNative || source.kind == Kind::kDcp);
  if (with_state) tensors = all_of(source);
  const bool with_moments = source.training && options.to == Kind::kNative;
  if (with_moments) {
    const std::vector<Transfer> moments = moments_of(source.reader);
    tensors.insert(tensors.end(), moments.begin(), moments.end());
  }
  const DType dtype = set_types(tensors, options, source.notes);
  std::vector<std::string> left_out;
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    if (!with_state && !with_moments && is_state(tensor.name)) left_out.push_back(tensor.name);
  }
  if (!left_out.empty())
    source.notes.push_back(fmt::format("weights only: {} tensors of a training's state stay behind, such as {}",
                                       left_out.size(), left_out.front()));
  const Description nothing;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (source.description) {
    give_pairs(source, pairs_for(source, options));
    tokenizer = tokenizer_for(source, options, source.notes);
    // Throws if the tokenizer has more tokens than the model.
    if (tokenizer) plan::model_shape(source.description->model, tokenizer->vocab_size());
  }

  const Path out = without_slash(options.out);
  const Path work = out.string() + kWorkSuffix;
  remove_tree(work);
  make_folders(work);
  for (const Transfer& tensor : tensors) {
    ++result.tensors;
    if (!is_state(tensor.to.name)) result.parameters += mesh::Box{{}, tensor.to.shape}.numel();
    result.bytes += bytes_of(tensor.to);
  }
  progress.all_bytes = result.bytes;
  Options final_options = options;
  final_options.out = out;
  const Model model{source.reader,
                    source.description ? *source.description : nothing,
                    dtype,
                    std::move(tensors),
                    tokenizer.get(),
                    source.reader.folder().lexically_normal().string(),
                    options.max_file_bytes,
                    options.to_layout.value_or(QkvLayout::kSlots),
                    options.tensor_parallel,
                    options.nxd.value_or(NxdLayout{}),
                    with_moments ? &*source.training : nullptr,
                    run ? &*run : nullptr};
  std::vector<std::string> notes = write(work, final_options, model, source, progress);
  if (options.to != Kind::kNative) {
    sync_folder(work);
    rename_path(work, out);
  }
  result.notes = std::move(source.notes);
  result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  return result;
}

}  // namespace hearth::convert
