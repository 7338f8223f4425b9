// SPDX-License-Identifier: Apache-2.0
#include "convert/convert.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/copy_tree.h"
#include "base/disk_space.h"
#include "base/error.h"
#include "base/log.h"
#include "base/object_file.h"
#include "base/quantity.h"
#include "config/families.h"
#include "config/load.h"
#include "convert/names.h"
#include "convert/target.h"
#include "convert/weights_of_model.h"
#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::convert {
namespace {

constexpr int64_t kFileBytes = 5'000'000'000;

// The model's parameters, each of which the source must have. Weights that are no parameters are refused by name.
std::vector<Transfer> parameters_of(Source& source, const std::optional<Upcycling>& upcycling) {
  config::Model& m = source.description->model;
  const WeightProblems problems = weight_problems(m, source.reader.tensors(), source.names.value_or(source.kind));
  if (!problems.empty())
    throw user_error(fmt::format("{} does not have the weights of the model that it describes: {}",
                                 source.reader.folder().string(), problems.summary()),
                     "weights are never dropped or made up", "take the files of one model, all of them");
  std::vector<Transfer> tensors;
  for (const plan::Parameter& p : plan::parameter_plan(plan::model_shape(m, 0)).parameters)
    tensors.push_back({p.name, {p.name, source.reader.find(p.name)->dtype, p.shape}});
  return upcycling ? upcycle(m, *upcycling, tensors) : tensors;
}

// Every tensor under its own name, or the weights only: for folders of PyTorch that become folders of PyTorch.
std::vector<Transfer> all_of(const Source& source, bool with_state) {
  std::vector<Transfer> tensors;
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    if (!with_state && is_training_state(tensor.name)) continue;
    tensors.push_back({tensor.name, {std::string(without_model(tensor.name)), tensor.dtype, tensor.shape}});
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

DType set_types(std::vector<Transfer>& tensors, const Options& options, std::vector<std::string>& notes) {
  std::vector<Transfer> weights;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(weights),
               [](const Transfer& tensor) { return !is_training_state(tensor.to.name); });
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
    if (!is_training_state(tensor.to.name)) tensor.to.dtype = dtype;
  }
  return dtype;
}

// Appends the moments. In a native checkpoint those of another program have the type that the run file says.
void add_moments(std::vector<Transfer>& tensors, const Source& source, const Options& options,
                 const std::optional<config::RunConfig>& run, DType weights) {
  std::vector<Transfer> moments = moments_of(source.reader);
  if (options.to == Kind::kNative && source.kind != Kind::kNative && run) {
    config::RunConfig keys = *run;
    keys.training.dtype = weights;
    for (Transfer& moment : moments) moment.to.dtype = plan::precision(keys).moments;
  }
  tensors.insert(tensors.end(), moments.begin(), moments.end());
}

// The keys of the training in `source`; empty: not known.
std::optional<config::RunConfig> training_keys(const Source& source, const std::optional<config::RunConfig>& given) {
  if (given || source.kind != Kind::kNative) return given;
  return config::from_toml_text(source.reader.manifest().config_toml, checkpoint::kManifestFile, ".");
}

// The files of GPT-NeoX and NxD have the type that the training computes in: its float32 weights are the optimizer's.
DType computed_type(const config::RunConfig& run) {
  return plan::precision(run).compute == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

void require_state(const Source& source, const Options& options) {
  if (!source.training)
    throw user_error(fmt::format("{} has no state of a training for --resume", source.reader.folder().string()),
                     "it has weights and no moments", "leave out --resume to write the weights alone");
  if (options.to != Kind::kTorchtitan) return;
  const std::string name = normal_path(options.out).filename().string();
  const std::string wanted = fmt::format("step-{}", source.training->step);
  if (name.starts_with("step-") && name != wanted)
    throw user_error(fmt::format("{} is not the name of step {}", options.out.string(), source.training->step),
                     "torchtitan takes the step from the folder's name, and opens that name without zeros in front",
                     fmt::format("give {}", options.out.lexically_normal().replace_filename(wanted).string()));
}

// The kinds that are not native: the order of the rows of queries and keys, and how the files are written.
struct Target {
  Kind kind;
  std::optional<config::RopePairs> pairs;  // none: the family's
  std::vector<std::string> (*write)(const Path& folder, const TargetModel& model, ConvertProgress& progress);
};
constexpr Target kTargets[] = {{Kind::kDcp, config::RopePairs::kInterleaved, write_dcp},  // torchtitan's models
                               {Kind::kTorchtitan, config::RopePairs::kInterleaved, write_torchtitan},
                               {Kind::kHuggingFace, {}, write_hugging_face},
                               {Kind::kMeta, config::RopePairs::kInterleaved, write_meta},
                               {Kind::kNeox, config::RopePairs::kHalves, write_neox},
                               {Kind::kNxd, config::RopePairs::kHalves, write_nxd}};
const Target* find_target(Kind kind) {
  const auto found =
      std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) { return t.kind == kind; });
  return found == std::end(kTargets) ? nullptr : found;
}

config::RopePairs pairs_for(const Source& source, const Options& options) {
  if (const Target* target = find_target(options.to))
    return target->pairs.value_or(config::nearest_family(source.description->model).hugging_face.rope_pairs);
  return options.rope_pairs.value_or(source.description->model.rope_pairs);
}

void check_proof(const Options& options, const Source& source) {
  if (options.prove && !source.description)
    throw user_error(fmt::format("{} does not describe its model", source.reader.folder().string()),
                     "--verify computes with it", "give --config RUN.toml: a run file whose [model] is this model's");
}

// A card ends with what was proved of its weights.
void add_to_card(const Path& folder, const std::string& proof) {
  write_file_atomic(folder / "README.md", fmt::format("{}\n{}\n", read_file(folder / "README.md"), proof));
}

void remove_paths(checkpoint::Manifest& manifest) {
  const config::RunConfig run = config::from_toml_text(manifest.config_toml, checkpoint::kManifestFile, ".");
  manifest.config_toml = config::to_toml(config::for_publication(run));
}

// `proof` becomes what options.prove returns.
std::vector<std::string> write(const Path& work, const Options& options, const TargetModel& model, const Source& source,
                               ConvertProgress& progress, std::string& proof) {
  const auto prove = [&] {
    if (options.prove) proof = options.prove({work, options.to, model.description, options.to_layout});
  };
  if (options.to == Kind::kNative) {
    std::optional<checkpoint::Manifest> before;
    if (source.kind == Kind::kNative) before = source.reader.manifest();
    if (before && options.is_published) remove_paths(*before);
    return write_native(work, options.out, model, before ? &*before : nullptr, progress, [&] {
      check_source(model);
      prove();
    });
  }
  std::vector<std::string> notes = find_target(options.to)->write(work, model, progress);
  prove();
  if (!proof.empty() && options.to == Kind::kHuggingFace) add_to_card(work, proof);
  if (is_object(options.out)) return notes;
  sync_folder(work);
  rename_path(work, options.out);
  return notes;
}

// The folder OUT.convert.tmp, empty: a conversion writes there before its files get the name OUT. It is removed at the
// end if it was not renamed; a killed process leaves it to the next conversion. Another one to the same OUT is kept
// out. A store renames nothing: there it is OUT itself, whose files are removed unless keep() is called. An object in
// it, the mark, keeps other conversions out, where the store can. It stays after a failure: a store may execute a
// request late, and then it must not meet the files of another conversion.
class WorkFolder {
 public:
  explicit WorkFolder(const Path& out)
      : path_(is_object(out) ? out : Path(out.string() + ".convert.tmp")), lock_path_(out.string() + ".convert.lock") {
    if (is_object(path_)) {
      require_new(out);
      const auto now = std::chrono::system_clock::now().time_since_epoch().count();  // no other has this content
      put_new_object(mark(),
                     fmt::format("Process {} converts a model here since {}. If it does not run any more, remove "
                                 "this folder after some minutes.\n",
                                 ::getpid(), now));
      return;
    }
    if (out.has_parent_path()) make_folders(out.parent_path());
    lock_ = FileLock::try_lock(lock_path_);
    if (lock_ == nullptr)
      throw user_error(fmt::format("another conversion writes {}", out.string()),
                       fmt::format("its process has locked {}", lock_path_.string()),
                       "wait until it ends, or give another OUT");
    remove_tree(path_);
    make_folders(path_);
  }
  ~WorkFolder() {
    if (is_object(path_)) {
      remove_objects();
      return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    std::filesystem::remove(lock_path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const Path& path() const { return path_; }
  void keep() {
    kept_ = true;
    if (is_object(path_)) remove_file(mark());
  }

 private:
  Path mark() const { return path_ / ".hearth-convert"; }
  void remove_objects() const {
    if (kept_) return;
    try {
      for (const FileEntry& file : files_under(path_))
        if (path_ / file.path != mark()) remove_file(path_ / file.path);
      log_error(
          "nothing but {} is left; convert to another folder, or remove this one and wait some minutes: the store "
          "may still execute a request of this conversion",
          mark().string());
    } catch (const Error&) {  // an error is on its way: another one would hide it
      log_error("{} has a part of the files: remove it", path_.string());
    }
  }

  Path path_, lock_path_;
  std::unique_ptr<FileLock> lock_;
  bool kept_ = false;
};

Path without_slash(const Path& path) {
  const Path normal = normal_path(path);
  return normal.has_filename() ? normal : normal.parent_path();
}

// Zips for a store are written to TMPDIR one after the other, and the smallest of them has at least a rank's part.
void require_room_for_drafts(const Options& options, int64_t bytes) {
  if (options.to != Kind::kMeta) return;
  require_disk_space(temporary_directory(), bytes / options.tensor_parallel, "the conversion",
                     "each file is written there before it is uploaded: set TMPDIR to a folder on a larger disk");
}

// `more_room`: what to do where the disk of OUT is too small.
Result convert_into(Options options, const std::string& more_room, ConvertProgress& progress) {
  Source source = open_source_of(options);
  check_proof(options, source);
  std::optional<config::RunConfig> run = keys_of(options);
  Result result{source.kind, 0, 0, 0, {}, {}};
  auto tensors = source.description ? parameters_of(source, options.upcycling) : std::vector<Transfer>{};
  // A folder of PyTorch has a home for all that another one has.
  const bool with_state = options.to == Kind::kDcp && (source.kind == Kind::kNative || source.kind == Kind::kDcp ||
                                                       (source.kind == Kind::kTorchtitan && run));
  if (with_state || !source.description) tensors = all_of(source, with_state);
  run = training_keys(source, run);
  if (options.resume) require_state(source, options);
  if (options.resume && (options.to == Kind::kNeox || options.to == Kind::kNxd) && !options.dtype)
    options.dtype = computed_type(*run);
  const bool with_moments =
      source.training && !options.is_published && !options.upcycling && (options.to == Kind::kNative || options.resume);
  const DType dtype = set_types(tensors, options, source.notes);
  if (with_moments) add_moments(tensors, source, options, run, dtype);
  std::vector<std::string> left_out;
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    if (!with_state && !with_moments && is_training_state(tensor.name)) left_out.push_back(tensor.name);
  }
  if (!left_out.empty())
    source.notes.push_back(fmt::format("weights only: {} of a training's state left behind, such as {}",
                                       hearth::counted(std::ssize(left_out), "tensor"), left_out.front()));
  const Description nothing;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::string chat_template;
  if (source.description) {
    give_pairs(source, pairs_for(source, options));
    tokenizer = tokenizer_for(source, options);
    chat_template = chat_template_for(source, options);
    complete_objective(source, options.to);
    // Throws if the tokenizer has more tokens than the model.
    if (tokenizer) plan::model_shape(source.description->model, tokenizer->vocab_size());
  }

  for (const Transfer& tensor : tensors) {
    ++result.tensors;
    if (!is_training_state(tensor.to.name)) result.parameters += mesh::Box{{}, tensor.to.shape}.numel();
    result.bytes += bytes_of(tensor.to);
  }
  options.out = without_slash(options.out);
  if (is_object(options.out)) require_room_for_drafts(options, result.bytes);
  WorkFolder work(options.out);
  if (!is_object(options.out)) require_new(options.out);  // another conversion may have made it meanwhile
  if (!is_object(options.out)) require_disk_space(work.path(), result.bytes, "the conversion", more_room);
  progress.all_bytes = result.bytes;
  const TargetModel model{source.reader,
                          source.description ? *source.description : nothing,
                          dtype,
                          std::move(tensors),
                          tokenizer.get(),
                          normal_path(source.reader.folder()).string(),
                          options.max_file_bytes.value_or(kFileBytes),
                          options.to_layout.value_or(QkvLayout::kSlots),
                          options.tensor_parallel,
                          options.pipeline_parallel,
                          options.data_parallel,
                          options.nxd.value_or(NxdLayout{}),
                          source.training && (with_moments || with_state) ? &*source.training : nullptr,
                          run ? &*run : nullptr,
                          std::move(chat_template),
                          options.is_published};
  std::vector<std::string> notes = write(work.path(), options, model, source, progress, result.proof);
  work.keep();
  result.notes = std::move(source.notes);
  result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  return result;
}

}  // namespace

Result convert(const Options& options, ConvertProgress& progress) {
  check_options(options);
  if (!is_object(options.out) || !options.prove) return convert_into(options, "give OUT on another disk", progress);
  // What is not proved gets no name, and the proof reads the whole.
  const Path work = temporary_directory() / fmt::format("hearth-convert-{}", ::getpid());
  Options on_disk = options;
  on_disk.out = work / without_slash(options.out).filename();
  make_folders(work);
  const std::shared_ptr<void> at_the_end(nullptr, [&work](void*) { std::filesystem::remove_all(work); });
  Result result = convert_into(
      on_disk, "the files are written there before they are uploaded: set TMPDIR to a folder on a larger disk",
      progress);
  copy_tree(on_disk.out, options.out, progress.upload);
  return result;
}

}  // namespace hearth::convert
