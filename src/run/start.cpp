// SPDX-License-Identifier: Apache-2.0
#include "run/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/object_cache.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "config/derived.h"
#include "config/load.h"
#include "config/resume.h"
#include "data/shard/same_tokenizer.h"
#include "metrics/jsonl.h"
#include "plan/tensor_names.h"
#include "run/last_save.h"
#include "run/same_run.h"
#include "tokenizer/formats/chat_template.h"

namespace hearth::run {
namespace {

// The configuration of the run that wrote the checkpoint.
config::RunConfig config_of(const checkpoint::Reader& reader) {
  return config::from_toml_text(reader.manifest().config_toml, (reader.folder() / checkpoint::kManifestFile).string(),
                                ".");
}

void add(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

void check_same_tokenizer(const Run& run, const checkpoint::Manifest& manifest, const Path& folder) {
  const data::TrainingSource& first = run.data.sources().front();
  data::require_same_tokenizer(data::tokenizer_of(first.path, first.dataset.manifest()),
                               tokenizer_of(folder, manifest));
}

// The run continues with its dataset and tokenizer, whatever else was edited. Sources and mixture weights may change:
// the samples trained so far stay, and the run file holds from here on. `state` is the data's state in the checkpoint.
void continue_data(Run& run, const checkpoint::Manifest& manifest, const data::DataState& state, const Path& folder) {
  check_same_tokenizer(run, manifest, folder);
  const auto& sources = run.data.sources();
  if (state.sources.size() == 1 && sources.size() == 1 &&
      sources.front().dataset.manifest().identity != state.sources.front())
    throw user_error(fmt::format("{} is not the dataset that {} was trained on", sources.front().path, folder.string()),
                     "its documents, their order or its rules changed, so samples would repeat or be missed",
                     "point data.path at the old dataset, or begin a new run from these weights: "
                     "checkpoint.initial_load_path in a new job.dump_folder");
  run.data.continue_from(state);
}

// A run may continue with other token weights if the run file names another file, as with another learning rate. It is
// an error if the file's content changed under the same name.
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

// If the run went back to this checkpoint, it continues with the data after the failed step. This also holds if it was
// stopped before its next save. The number of rewinds stays, too.
void repeat_rewind(const Path& metrics_file, Start& start) {
  const std::vector<metrics::Event> events = metrics::read_events(metrics_file);
  const auto last = std::find_if(events.rbegin(), events.rend(), [&](const metrics::Event& event) {
    return event.name == "rewind" && event.step == start.progress.step && event.next_sample;
  });
  if (last == events.rend()) return;
  start.progress.next_sample = *last->next_sample;
  start.progress.health.rewinds = last->rewinds;
  start.warnings.push_back(
      fmt::format("the run went back to step {} because of step {} ({}): continuing after that step's data", last->step,
                  last->from_step, last->reason));
}

// Whether a folder of another program, which has no hash of ours, has this tokenizer file.
bool has_tokenizer_file(const Path& folder, std::string_view content) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (path_exists(folder / name)) return read_file(folder / name) == content;
  return false;
}

// The chat template of the model that the training starts from. The template of another tokenizer than the data's is
// left out, with a note.
std::string chat_template_for(const Run& run, const checkpoint::Reader& reader, Start& start) {
  std::string found;
  bool same = false;
  if (reader.has_manifest()) {
    const checkpoint::Manifest& manifest = reader.manifest();
    if (manifest.states.contains(tokenizer::kChatTemplateState)) found = manifest.state(tokenizer::kChatTemplateState);
    same = manifest.tokenizer_hash == run.data.manifest().tokenizer_hash;
  } else {
    found = tokenizer::read_chat_templates(reader.folder());
    same = has_tokenizer_file(reader.folder(), run.tokenizer_file);
  }
  if (found.empty() || same) return found;
  start.notes.push_back(
      fmt::format("the chat template of {} stays behind: its tokenizer is not the data's", reader.folder().string()));
  return {};
}

// Continues exactly from `folder`, a checkpoint of this run.
void continue_from(const Path& folder, Run& run, Start& start) {
  start.source = std::make_shared<convert::Source>(convert::Source{
      convert::Kind::kNative, checkpoint::Reader::open(folder, checkpoint::FileSizes::kWhenOpened), {}, {}});
  const checkpoint::Reader& reader = start.source->reader;
  const checkpoint::Manifest& manifest = reader.manifest();
  require_moments(reader, run);
  start.progress = progress_of(manifest, folder);
  repeat_rewind(run.folder.metrics_file(), start);
  data::DataState state = data_state_of(manifest, folder);
  state.next_sample = start.progress.next_sample;
  continue_data(run, manifest, state, folder);
  const config::RunConfig before = config_of(reader);
  const auto changes = config::differences(before, run.config);
  config::refuse_changes(changes, folder.string());
  check_same_weights(run, before, manifest, folder);
  for (const config::Difference& change : changes) start.notes.push_back("changed: " + config::describe(change));
  start.checkpoint = folder;
  start.moments = convert::has_moments(reader);
  start.chat_template = chat_template_for(run, reader, start);
}

// "12 weights are converted from bfloat16 to float32"; nullopt without conversions.
std::optional<std::string> conversion_note(const Run& run, const checkpoint::Reader& reader,
                                           const convert::InitialLoad& initial_load) {
  const DType masters = run.precision.masters;
  int64_t count = 0;
  std::set<std::string_view> types;
  for (size_t i = 0; i < run.plan.parameters.size(); ++i) {
    if (initial_load.is_fresh(i)) continue;
    const DType stored = reader.find(plan::weight_name(run.plan.parameters[i].name))->dtype;
    if (stored == masters) continue;
    ++count;
    types.insert(dtype_name(stored));
  }
  if (count == 0) return std::nullopt;
  return fmt::format("{} weights are converted from {} to {}", count, fmt::join(types, " and "), dtype_name(masters));
}

void check_vocabulary(const Run& run, const checkpoint::Manifest& manifest, const Path& folder, Start& start) {
  if (convert::is_without_tokenizer(manifest))
    start.notes.push_back("the checkpoint has no tokenizer: that its ids are the data's is not checked");
  else
    check_same_tokenizer(run, manifest, folder);
}

// Starts a new run with a checkpoint's weights, of any kind. PyTorch's folders say nothing about their model, so only
// shapes are checked.
void begin_with_weights_of(const Path& folder, const Run& run, Start& start) {
  start.source = std::make_shared<convert::Source>(convert::open_for_run(folder, run.config.model));
  const convert::Source& source = *start.source;
  const checkpoint::Reader& reader = source.reader;
  start.initial_load = convert::plan_initial_load(run.config.checkpoint, run.plan, reader);
  if (reader.has_manifest() && !start.initial_load.new_vocabulary(run.plan))
    check_vocabulary(run, reader.manifest(), folder, start);
  add(start.notes, convert::check_same_model(source, run.config));
  start.chat_template = chat_template_for(run, reader, start);
  add(start.notes, source.notes);
  if (const auto note = conversion_note(run, reader, start.initial_load)) start.notes.push_back(*note);
  start.checkpoint = folder;
  start.from_elsewhere = true;
  start.progress.parent = folder.string();
  start.notes.push_back(fmt::format("starting at step 0 with the weights of {}", folder.string()));
}

// Changes of the run file that a branch must not make. Returns notes for those that it may.
std::vector<std::string> allowed_changes(const checkpoint::Reader& reader, const Run& run, bool new_data,
                                         bool new_optimizer) {
  std::vector<config::Difference> changes = config::differences(config_of(reader), run.config);
  std::erase_if(changes, [&](const config::Difference& change) {
    const bool of_data = change.name.starts_with("data.") || change.name == "training.seq_len" ||
                         change.name == "training.seed" || change.name.starts_with("objective.");
    const bool of_optimizer = change.name.starts_with("optimizer.") || change.name == "checkpoint.freeze";
    // The other keys of [checkpoint] are about this run's start, so they may differ.
    return (new_data && of_data) || (new_optimizer && of_optimizer) ||
           (change.name.starts_with("checkpoint.") && change.at_resume != config::AtResume::kRefuse);
  });
  config::refuse_changes(changes, reader.folder().string(),
                         "load only the weights, with checkpoint.initial_load_model_only = true");
  std::vector<std::string> notes;
  for (const config::Difference& change : changes) notes.push_back("changed: " + config::describe(change));
  return notes;
}

// The state of the training in `source`, for a branch. Only ours has it without moments.
convert::TrainingState state_for_branch(const convert::Source& source, bool new_optimizer) {
  if (source.training) return *source.training;
  const checkpoint::Reader& reader = source.reader;
  if (reader.has_manifest() && !new_optimizer)
    throw user_error(
        fmt::format("{} has the weights alone: a branch cannot take over its optimizer", reader.folder().string()),
        "checkpoint.last_save_model_only left the optimizer's state out, or it is a mean or a converted model",
        "give checkpoint.exclude_from_loading = [\"optimizer\"], or another checkpoint")
        .about("checkpoint.initial_load_path");
  if (!reader.has_manifest())
    throw user_error(fmt::format("{} has no moments", reader.folder().string()),
                     "it is a model and not the state of a training, and a branch goes on with the optimizer's",
                     "remove checkpoint.initial_load_model_only to begin with its weights");
  return convert::training_of(reader.manifest());
}

// Other programs store the rate of their next step. Here it follows from the run file.
void compare_rates(const convert::TrainingState& theirs, const Run& run, Start& start) {
  if (!theirs.next_lr || start.progress.step != theirs.step) return;
  const double ours = plan::learning_rate(run.schedule, theirs.step + 1);
  const std::string text = fmt::format("the learning rate of step {} is {:.6g}", theirs.step + 1, ours);
  if (std::abs(ours - *theirs.next_lr) <= 1e-6 * std::abs(ours))
    start.notes.push_back(text + ", as in the checkpoint");
  else
    start.warnings.push_back(
        fmt::format("{}, and {:.6g} in the checkpoint: compare optimizer.lr, [lr_scheduler] and "
                    "training.steps with the other program's",
                    text, *theirs.next_lr));
}

// A branch: continues from another run's checkpoint, without the parts in checkpoint.exclude_from_loading. Other
// programs' data have no position here.
void branch_off(const Path& folder, Run& run, Start& start) {
  start.source = std::make_shared<convert::Source>(convert::open_for_run(folder, run.config.model));
  const convert::Source& source = *start.source;
  const checkpoint::Reader& reader = source.reader;
  const bool has_data = convert::has_data_state(reader);
  const bool new_data = !has_data || config::leaves_behind(run.config, "dataloader");
  const bool new_steps = config::leaves_behind(run.config, "train_state");
  const bool new_optimizer = config::leaves_behind(run.config, "optimizer");
  const convert::TrainingState theirs = state_for_branch(source, new_optimizer);
  start.initial_load = convert::plan_initial_load(run.config.checkpoint, run.plan, reader);
  if (!new_data) {
    continue_data(run, reader.manifest(), data_state_of(reader.manifest(), folder), folder);
  } else if (reader.has_manifest() && !start.initial_load.new_vocabulary(run.plan)) {
    check_vocabulary(run, reader.manifest(), folder, start);
  }
  add(start.notes, reader.has_manifest() ? allowed_changes(reader, run, new_data, new_optimizer)
                                         : convert::check_same_model(source, run.config));
  start.chat_template = chat_template_for(run, reader, start);
  add(start.notes, source.notes);
  start.checkpoint = folder;
  start.from_elsewhere = true;
  start.moments = !new_optimizer;
  RunProgress& progress = start.progress;
  if (!new_steps) {
    progress.step = theirs.step;
    progress.tokens_seen = theirs.tokens_seen;
  }
  if (!new_data) progress.next_sample = progress_of(reader.manifest(), folder).next_sample;
  // The moments keep their count of updates.
  progress.optimizer_start = progress.step - (start.moments ? theirs.updates : 0);
  progress.parent = folder.string();
  std::string note = fmt::format("branching off after step {} from {}", theirs.step, folder.string());
  if (!run.config.checkpoint.exclude_from_loading.empty())
    note += fmt::format(", without its {}", join(run.config.checkpoint.exclude_from_loading));
  start.notes.push_back(note);
  if (!has_data)
    start.notes.push_back("data begin with their first sample: the checkpoint has no position that Hearth's data know");
  compare_rates(theirs, run, start);
}

std::string frozen_note(const Run& run) {
  int64_t parameters = 0, elements = 0;
  for (size_t i = 0; i < run.trained.size(); ++i) {
    if (run.trained[i]) continue;
    ++parameters;
    elements += run.plan.parameters[i].numel;
  }
  return fmt::format("frozen: {} parameters of {}, {} of {} elements ({})", parameters, run.trained.size(), elements,
                     run.plan.num_parameters, join(run.config.checkpoint.freeze));
}

// Settings that are allowed but probably not intended.
std::vector<std::string> doubts(const Run& run) {
  std::vector<std::string> notes;
  const config::RunConfig& c = run.config;
  if (c.objective.masked() && c.objective.mask_id >= 0) {
    const auto tokenizer = run.data.sources().front().dataset.open_tokenizer();
    std::string text;
    if (tokenizer->has_text() && c.objective.mask_id < tokenizer->vocab_size())
      tokenizer->decode(static_cast<uint32_t>(c.objective.mask_id), text);
    if (!text.empty())
      notes.push_back(
          fmt::format("objective.mask_id = {} is the token of the text {}, so texts may contain it by chance: name a "
                      "special token (objective.mask_token), or give the first id after the tokenizer's, {}, and a "
                      "model.vocab_size above it",
                      c.objective.mask_id, config::to_toml_value(text), tokenizer->vocab_size()));
  }
  if (const plan::Pipeline& p = run.pipeline.pipeline; p.micro_batches < p.ranks)
    notes.push_back(fmt::format(
        "{} micro-batches pass through {} pipeline ranks together, which wait {:.0f} % of a step: a larger "
        "training.local_batch_size, or a smaller parallelism.pipeline_parallel_microbatch_size, leaves less",
        p.micro_batches, p.ranks, 100 * plan::pipeline_bubble(run.pipeline, run.shape, run.config.training.seq_len)));
  if (c.training.dtype == DType::kBFloat16 && !c.numerics.stochastic_rounding)
    notes.push_back(
        "training.dtype = \"bfloat16\": updates below 1/512 of a weight vanish, as bfloat16 has 8 bits; "
        "numerics.stochastic_rounding = true keeps them on average, training.dtype = \"float32\" with "
        "mixed_precision_param = \"bfloat16\" exactly");
  if (const int64_t bytes = run.data.bytes_in_store(); bytes > 0)
    if (std::optional<std::string> doubt = cache_doubt(bytes)) notes.push_back(std::move(*doubt));
  return notes;
}

// The newest good checkpoint of the run folder; nullopt: none. Reading it, and removing leftovers, is for one rank.
std::optional<Path> newest_checkpoint(Run& run, comm::Control& control,
                                      const std::vector<checkpoint::DamagedCheckpoint>& given_up,
                                      std::vector<std::string>& warnings) {
  std::optional<Path> own;
  control.together("the search for a checkpoint", [&] {
    if (control.rank() == 0) own = run.folder.newest_checkpoint(warnings, given_up);
  });
  const std::string path = control.broadcast("the checkpoint to go on from", own ? own->string() : std::string());
  if (path.empty()) return std::nullopt;
  return path;
}

Start start_at(const std::optional<Path>& own, Run& run) {
  Start start;
  const config::Checkpoint& options = run.config.checkpoint;
  if (own) {
    continue_from(*own, run, start);
    start.notes.push_back(fmt::format("continuing after step {} from {}", start.progress.step, own->string()));
  } else if (!options.initial_load_path.empty() && options.initial_load_model_only) {
    begin_with_weights_of(convert::find_weights(normal_path(run.config.initial_load_path())).folder, run, start);
  } else if (!options.initial_load_path.empty()) {
    branch_off(convert::find_weights(normal_path(run.config.initial_load_path())).folder, run, start);
  }
  add(start.notes, start.initial_load.notes);
  if (!run.config.checkpoint.freeze.empty()) start.notes.push_back(frozen_note(run));
  run.data.check_epochs(data::sampler_of(run.data.splits(), run.loading(0)), run.samples(), run.global_batch_size);
  add(start.notes, run.data.notes());
  for (const data::TrainingData::Source& source : run.data.sources())
    if (const data::Split& split = source.dataset.split("train"); split.weights())
      start.notes.push_back(
          fmt::format("{}: {}", source.path, data::describe_weights(*split.weights(), split.tokens())));
  add(start.notes, run.schedule.notes);
  add(start.warnings, doubts(run));
  if (start.progress.step >= run.steps)
    start.notes.push_back(fmt::format("nothing to do: {} of {} steps are done; {}", start.progress.step, run.steps,
                                      start.moments || start.from_elsewhere
                                          ? "a larger training.steps prolongs the run"
                                          : "the last save has the weights alone, so a new run may begin with them"));
  return start;
}

}  // namespace

Start find_start(Run& run, comm::Control& control, const std::vector<checkpoint::DamagedCheckpoint>& given_up) {
  std::vector<std::string> warnings;
  const std::optional<Path> own = newest_checkpoint(run, control, given_up, warnings);
  std::vector<FoundInput> weights;
  control.together("the weights to begin with", [&] { weights = weights_found(own, run.config); });
  require_same("the weights of all ranks", weights, control);
  Start start;
  control.together("the start", [&] { start = start_at(own, run); });
  run.chat_template = start.chat_template;
  start.warnings.insert(start.warnings.begin(), warnings.begin(), warnings.end());
  return start;
}

}  // namespace hearth::run
