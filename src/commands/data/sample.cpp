// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "commands/commands.h"
#include "commands/recordings/array_view.h"
#include "config/derived.h"
#include "config/load.h"
#include "convert/source.h"
#include "data/batch/loader.h"
#include "data/order/training_data.h"
#include "metrics/jsonl.h"
#include "runfolder/names.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {
namespace {

constexpr int64_t kNeuronsShown = 32;

struct Samples {
  uint64_t first = 0;
  int64_t count = 0;
};

struct SampleRequest {
  config::LoadResult loaded;  // the run file; for a dataset alone only its path, seed and sequence length
  bool is_run = false;
  Samples samples;
};

// Prints one document's part of a sample: its source file and its tokens.
void print_part(const data::Dataset& dataset, const data::Split& split, int64_t document, int64_t begin, int64_t end) {
  const data::DocumentOrigin origin = split.origin(document);
  const auto& sources = dataset.manifest().sources;
  const bool known = origin.source >= 0 && origin.source < static_cast<int64_t>(sources.size());
  fmt::print("  document {}, tokens {} to {}", document, begin, end);
  if (known) {
    const data::SourceFile& source = sources[static_cast<size_t>(origin.source)];
    const bool is_row = data::counts_rows(source.format);
    fmt::print(" of {}", printable(source.path));
    if (is_row || origin.source_offset > 0) fmt::print(" {} {}", is_row ? "row" : "from byte", origin.source_offset);
  }
  if (split.weights()) {
    std::vector<float> weights(static_cast<size_t>(end - begin));
    split.read_weights(split.document_begin(document) + begin, weights);
    const auto counted = std::count_if(weights.begin(), weights.end(), [](float weight) { return weight != 0; });
    fmt::print(", {} of them count in the loss", counted);
  }
  fmt::print("\n");
}

void print_text(const data::Split& split, const tokenizer::Tokenizer& tokenizer, int64_t begin, int64_t end) {
  std::vector<int32_t> ids(static_cast<size_t>(end - begin));
  split.read(begin, ids);
  std::string text;
  for (const int32_t id : ids) tokenizer.decode(static_cast<uint32_t>(id), text);
  for (const std::string& line : split_lines(text)) fmt::print("    | {}\n", line);
}

void print_sample(const data::Dataset& dataset, const data::Split& split, const tokenizer::Tokenizer& tokenizer,
                  uint64_t g, const data::Sampler& sampler, uint64_t seed, const std::string& source) {
  const data::Sample sample = sampler.sample(g);
  std::vector<data::RowPart> parts;
  sampler.parts(sample, parts);
  fmt::print("sample {}: {}{} {}, window {}, ", g, source, sampler.has_table(sample.source) ? "pass" : "epoch",
             sample.epoch, sample.window);
  if (parts.size() == 1)
    fmt::print("tokens {} to {} of {}\n", parts[0].first_token, parts[0].first_token + parts[0].num_tokens(),
               split.name());
  else
    fmt::print("{} parts of {}\n", parts.size(), split.name());
  for (const data::RowPart& part : parts) {
    const int64_t end = part.first_token + part.num_tokens();
    for (int64_t token = part.first_token; token < end;) {
      const int64_t document = split.locate(token).document;
      const int64_t document_begin = split.document_begin(document);
      const int64_t part_end = std::min(end, split.document_begin(document + 1));
      print_part(dataset, split, document, token - document_begin, part_end - document_begin);
      if (split.arrays() != nullptr) {
        print_array_labels(split, document);
        print_array(split, document, token, part_end, {seed, sample.epoch}, kNeuronsShown);
      } else {
        print_text(split, tokenizer, token, part_end);
      }
      token = part_end;
    }
  }
}

data::DataState data_state_of(const Path& folder) {
  const Path file = folder / checkpoint::kManifestFile;
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(read_file(file), file);
  return data::parse_data_state(manifest.state(data::kDataState), manifest.dataset_hash, file.string());
}

// What a branch continues.
convert::Source parent_of(const config::RunConfig& branch) {
  return convert::open_for_run(convert::find_weights(normal_path(branch.initial_load_path())).folder, branch.model);
}

bool takes_data(const config::RunConfig& branch, const convert::Source& parent) {
  return !config::leaves_behind(branch, "dataloader") && convert::has_data_state(parent.reader);
}

// The checkpoint whose data state the run continues, if any: its newest one, or the one that it branches from.
std::optional<data::DataState> state_of_data(const config::RunConfig& run) {
  const std::vector<int64_t> steps = checkpoint::list_steps(run.checkpoint_folder());
  if (!steps.empty()) return data_state_of(checkpoint::step_folder(run.checkpoint_folder(), steps.back()));
  if (!config::is_branch(run)) return std::nullopt;
  const convert::Source parent = parent_of(run);
  if (takes_data(run, parent)) return data_state_of(parent.reader.folder());
  return std::nullopt;
}

// The position of a training after `step` steps.
struct Position {
  int64_t step = 0;
  uint64_t next_sample = 0;
};

// The position at the start of the run.
Position beginning_of(const config::RunConfig& run) {
  if (!config::is_branch(run)) return {};
  const convert::Source parent = parent_of(run);
  Position position;
  if (!config::leaves_behind(run, "train_state"))
    position.step = parent.training                ? parent.training->step
                    : parent.reader.has_manifest() ? parent.reader.manifest().step
                                                   : 0;
  if (takes_data(run, parent)) position.next_sample = data_state_of(parent.reader.folder()).next_sample;
  return position;
}

// The samples of a step. Recorded steps come from the run's records: the batch may have changed at a resume, and a
// rewind skips samples. Later steps continue after the records, with the batch size of the run file.
Samples samples_of(const config::RunConfig& run, int64_t step) {
  const int64_t batch = config::global_batch_size(run), seq_len = run.training.seq_len;
  const Path file = run.run_folder() / runfolder::kMetricsFile;
  std::optional<Position> before;
  for (const metrics::StepRecord& record : metrics::read_metrics(file)) {
    // An older Hearth wrote no samples. Without a rewind they follow from the tokens.
    const auto end = record.samples > 0 ? record.first_sample + static_cast<uint64_t>(record.samples)
                                        : static_cast<uint64_t>(record.tokens / seq_len);
    if (record.step < step) before = {record.step, end};
    if (record.step != step) continue;
    if (record.samples > 0) return {record.first_sample, record.samples};
    const Position last = before.value_or(Position{});
    const uint64_t first = last.step == step - 1 ? last.next_sample : end - static_cast<uint64_t>(batch);
    return {first, static_cast<int64_t>(end - first)};
  }
  for (const metrics::Event& event : metrics::read_events(file))
    if (event.step < step && event.next_sample && (!before || event.step >= before->step))
      before = {event.step, *event.next_sample};
  if (!before) before = beginning_of(run);
  if (before->step >= step)
    throw user_error(fmt::format("step {} is not one of this run", step),
                     fmt::format("it is a branch, which starts after step {} of another run", before->step),
                     "give the run file of the other run");
  return {before->next_sample + static_cast<uint64_t>((step - 1 - before->step) * batch), batch};
}

// nullopt if --help was printed.
std::optional<SampleRequest> parse(CommandLine& line) {
  SampleRequest request;
  Path where;
  int64_t step = 0, seq_len = 0;
  uint64_t seed = 0;
  line.positional("RUN.toml|DIR", &where, "a run file, or a folder made by `hearth data build`");
  line.option("--at G", &request.samples.first, "the first sample, counted from 0 over the whole training");
  line.option("--count K", &request.samples.count, at_least(0), "samples to print; 0: one, or all of --step");
  line.option("--step N", &step, at_least(0), "the samples of step N, counted from 1; needs a run file");
  line.option("--seed S", &seed, "of the shuffle, when DIR is given");
  line.option("--seq-len L", &seq_len, at_least(0), "tokens of a sequence, when DIR is given; 0: 256");
  if (!line.parse()) return std::nullopt;

  config::RunConfig& run = request.loaded.config;
  request.is_run = where.extension() == ".toml";
  if (request.is_run) {
    if (seed != 0 || seq_len != 0)
      throw user_error("--seed and --seq-len go with a dataset", fmt::format("{} decides them", where.string()));
    request.loaded = config::read_and_check(where, {});
    config::throw_problems(request.loaded.file_name, request.loaded.problems);
    if (step > 0) {
      const int64_t count = request.samples.count;
      request.samples = samples_of(run, step);
      if (count > 0) request.samples.count = count;
    }
  } else {
    if (step > 0)
      throw user_error("--step needs a run file", "a dataset alone has no batch size", "give RUN.toml, or use --at");
    run.data.path = where.string();
    run.training.seed = static_cast<int64_t>(seed);
    run.training.seq_len = seq_len > 0 ? seq_len : 256;
  }
  return request;
}

}  // namespace

int data_sample(CommandLine& line) {
  const std::optional<SampleRequest> request = parse(line);
  if (!request) return 0;
  const config::RunConfig& run = request->loaded.config;
  std::optional<data::TrainingData> opened;
  config::with_places(request->loaded, [&] { opened.emplace(run); });
  data::TrainingData& data = *opened;
  // The past weights of the run's sources: the run file may have others by now.
  if (const auto past = request->is_run ? state_of_data(run) : std::nullopt) data.continue_from(*past);
  data::LoaderOptions loading;
  loading.seed = static_cast<uint64_t>(run.training.seed);
  loading.seq_len = run.training.seq_len;
  loading.order = data.order();
  const data::Sampler sampler = data::sampler_of(data.splits(), loading);
  const auto tokenizer = data.sources().front().dataset.open_tokenizer();
  for (int64_t i = 0; i < std::max<int64_t>(request->samples.count, 1); ++i) {
    const uint64_t g = request->samples.first + static_cast<uint64_t>(i);
    const auto& source = data.sources()[static_cast<size_t>(sampler.sample(g).source)];
    print_sample(source.dataset, source.dataset.split("train"), *tokenizer, g, sampler, loading.seed,
                 data.sources().size() > 1 ? source.path + ", " : "");
  }
  return 0;
}

}  // namespace hearth::commands
