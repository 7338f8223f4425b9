#include "train/start.h"

#include "base/error.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "config/load.h"
#include "config/resume.h"

namespace hearth::train {
namespace {

void check_same_tokenizer(const Run& run, const checkpoint::Manifest& manifest, const Path& folder) {
  const data::Manifest& data = run.data.manifest();
  const Path kept = folder / manifest.tokenizer;
  if (data.tokenizer_hash != manifest.tokenizer_hash)
    throw user_error(fmt::format("{} was built with another tokenizer than {} was trained with",
                                 run.data.sources().front().path, folder.string()),
                     fmt::format("the dataset's is {} ({}), the checkpoint's {} ({})", data.rules.tokenizer,
                                 data.tokenizer_hash, manifest.tokenizer, manifest.tokenizer_hash),
                     fmt::format("build the dataset again: hearth data build --tokenizer {} ...",
                                 path_exists(kept) ? kept.string() : manifest.tokenizer));
}

// The run goes on with the text and the ids it began with, whatever else was edited. Sources may have been added, and
// weights may have changed: what was trained stays, the run file holds from here on.
void continue_data(Run& run, const checkpoint::Manifest& manifest, const Path& folder) {
  check_same_tokenizer(run, manifest, folder);
  const auto& sources = run.data.sources();
  if (manifest.data_sources.size() == 1 && sources.size() == 1 &&
      sources.front().dataset.manifest().identity != manifest.data_sources.front())
    throw user_error(
        fmt::format("{} is not the dataset that {} was trained on", sources.front().path, folder.string()),
        "its documents, their order or its rules changed, so the samples would no longer be each used once",
        "point data.path at the old dataset, or begin a new run from these weights: "
        "checkpoint.initial_load_path in a new job.dump_folder");
  run.data.continue_from({manifest.next_sample, manifest.data_sources, manifest.data_segments, manifest.order_samples,
                          manifest.order_version});
}

// Other weights of the loss are a change like that of a learning rate: a run may go on with them, where the run file
// says so. A file that is another one under the old name says nothing.
void check_same_weights(const Run& run, const config::RunConfig& before, const checkpoint::Manifest& manifest,
                        const Path& folder) {
  const std::string& path = run.config.training.token_weights;
  if (path.empty() || path != before.training.token_weights || manifest.token_weights_hash.empty() ||
      manifest.token_weights_hash == run.token_weights_hash)
    return;
  throw user_error(
      fmt::format("{} is not the file that {} was trained with", path, folder.string()),
      fmt::format("its weights have the hash {}, and had {}", run.token_weights_hash, manifest.token_weights_hash),
      "put the old file back; or, to go on with these weights, give the file another name and name it in "
      "training.token_weights");
}

// Goes on exactly where `folder`, a checkpoint of this run or of the one it branches from, stands.
void continue_from(const Path& folder, Run& run, Start& start) {
  const checkpoint::Reader reader = checkpoint::Reader::open(folder);
  const checkpoint::Manifest& manifest = reader.manifest();
  continue_data(run, manifest, folder);
  const auto before = config::from_toml_text(manifest.config_toml, (folder / checkpoint::kManifestFile).string(), ".");
  const auto changes = config::differences(before, run.config);
  config::refuse_changes(changes, folder.string());
  check_same_weights(run, before, manifest, folder);
  for (const config::Difference& change : changes) start.notes.push_back("changed: " + config::describe(change));
  start.checkpoint = folder;
  start.progress = progress_of(manifest);
}

// Weights from elsewhere into a new run. PyTorch's directories have no manifest, so nothing but shapes can be checked.
void begin_with_weights_of(const Path& folder, const Run& run, Start& start) {
  const checkpoint::Reader reader = checkpoint::Reader::open(folder);
  if (reader.has_manifest()) check_same_tokenizer(run, reader.manifest(), folder);
  start.checkpoint = folder;
  start.weights_only = true;
  start.progress.parent = folder.string();
  start.notes.push_back(fmt::format("starting at step 0 with the weights of {}", folder.string()));
}

}  // namespace

Start find_start(Run& run) {
  Start start;
  const std::optional<Path> own = run.folder.newest_checkpoint(start.notes);
  const config::Checkpoint& options = run.config.checkpoint;
  if (own) {
    continue_from(*own, run, start);
    start.notes.push_back(fmt::format("going on after step {} from {}", start.progress.step, own->string()));
  } else if (!options.initial_load_path.empty() && options.initial_load_model_only) {
    begin_with_weights_of(run.config.initial_load_path().lexically_normal(), run, start);
  } else if (!options.initial_load_path.empty()) {
    const Path folder = run.config.initial_load_path().lexically_normal();
    continue_from(folder, run, start);
    start.progress.parent = folder.string();
    start.notes.push_back(fmt::format("branching off after step {} from {}", start.progress.step, folder.string()));
  }
  run.data.check_epochs(data::sampler_of(run.data.splits(), run.loading(0, 0)), run.samples(), run.global_batch_size);
  for (const std::string& note : run.data.notes()) start.notes.push_back(note);
  for (const std::string& note : run.schedule.notes) start.notes.push_back(note);
  if (start.progress.step >= run.steps)
    start.notes.push_back(
        fmt::format("nothing to do: {} of {} steps are done; a larger training.steps prolongs the run",
                    start.progress.step, run.steps));
  return start;
}

void Start::fill(const Run& run, parallel::ShardedWeights& weights) const {
  if (!checkpoint) return initialize_weights(weights, static_cast<uint64_t>(run.config.training.seed));
  checkpoint::Reader reader = checkpoint::Reader::open(*checkpoint);
  load_weights(reader, weights);
  if (!weights_only) load_moments(reader, weights);
}

}  // namespace hearth::train
