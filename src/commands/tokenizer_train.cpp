#include <fmt/core.h>

#include <chrono>
#include <mutex>

#include "base/error.h"
#include "base/units.h"
#include "commands/commands.h"
#include "commands/progress_line.h"
#include "commands/source_options.h"
#include "data/discover.h"
#include "data/holdout.h"
#include "data/parallel.h"
#include "data/records.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/train_bpe.h"

namespace hearth::commands {
namespace {

constexpr int64_t kUnitBytes = 8 << 20;  // what a thread reads at a time

struct Progress {
  std::atomic<int64_t> bytes_done{0}, bytes_total{0}, merges_done{0}, merges_total{0};
};

std::string progress_text(const Progress& p) {
  const bool merging = p.merges_total > 0;
  const auto done = static_cast<double>(merging ? p.merges_done : p.bytes_done);
  const auto total = static_cast<double>(merging ? p.merges_total : p.bytes_total);
  return progress_bar(merging ? "merging" : "counting", total > 0 ? done / total : 0);
}

struct Pattern {
  std::string_view name, regex;
};
const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {{"llama3", tokenizer::kLlama3Pattern},
                                           {"gpt2", tokenizer::kGpt2Pattern},
                                           {"qwen2", tokenizer::kQwen2Pattern},
                                           {"o200k", tokenizer::kO200kPattern}};
  return all;
}

// The pieces of all documents that are not held out; the same whatever the number of threads.
tokenizer::PieceCounts count_pieces(const data::Discovery& found, const data::BuildRules& rules,
                                    const std::string& pattern, int64_t threads, Progress& progress) {
  const std::vector<data::Unit> units = data::plan_units(found.sources, kUnitBytes);
  const data::Holdout holdout = data::find_holdout(found.sources, units, rules);
  for (const data::Unit& unit : units) progress.bytes_total += unit.size_bytes;
  const tokenizer::Pretokenizer cuts({{pattern}});
  tokenizer::PieceCounts all;
  std::mutex mutex;
  data::for_each_index(static_cast<int64_t>(units.size()), threads, [&](int64_t index) {
    const data::Unit& unit = units[static_cast<size_t>(index)];
    data::UnitRecords records(found.sources, unit, rules);
    tokenizer::Pretokenizer::Cutter cutter(cuts);
    tokenizer::PieceCounts counts;
    std::vector<std::string_view> batch;
    for (data::Document document; records.next(document);) {
      if (document.is_ids)
        throw user_error(fmt::format("{} holds token ids", found.sources[document.source].path),
                         "a tokenizer is trained on text", "leave it out");
      if (holdout.contains(document.hash)) continue;
      cutter.start(document.data);
      while (cutter.next(batch))
        for (const std::string_view piece : batch) counts.add(piece);
    }
    progress.bytes_done += unit.size_bytes;
    const std::lock_guard lock(mutex);
    all.add(counts);
  });
  return all;
}

}  // namespace

int tokenizer_train(CommandLine& line) {
  SourceOptions sources;
  data::DiscoverOptions options;
  data::BuildRules rules;
  tokenizer::BpeTraining training;
  Path out;
  std::string pattern = "llama3";
  bool overwrite = false;
  std::vector<std::string> names;
  for (const Pattern& p : patterns()) names.emplace_back(p.name);

  sources.declare(line);
  line.option("--vocab-size", "N", &training.vocab_size, "ids in all: special tokens, 256 bytes, one a merge")
      .required()
      .range(1, 1 << 26);
  line.option("--out", "FILE", &out, "tokenizer.json to write").required();
  line.option("--special-token", "TEXT", &training.special_tokens,
              "reserve an id for it, from 0 on; none given: <|begin_of_text|> and <|end_of_text|>");
  line.option("--pattern", "NAME", &pattern, "which tokenizer's rule cuts text into pieces").choices(names);
  line.option("--min-frequency", "N", &training.min_frequency, "do not merge pairs that occur less often")
      .range(1, 1e15);
  line.option("--validation", "FRACTION", &rules.validation,
              "leave out the documents that data build holds out with the same value");
  options.threads = 0;
  line.option("--threads", "N", &options.threads, "0: one per core").range(0, 4096);
  line.flag("--overwrite", &overwrite, "replace FILE");
  if (!line.parse()) return 0;
  if (!overwrite && path_exists(out))
    throw user_error(fmt::format("{} is there already", out.string()), "", "choose another --out, or add --overwrite");
  options.paths = sources.all_paths();
  options.include = sources.include;
  options.read = rules.read = sources.read_rules();
  rules.on_error = sources.error_policy();
  if (training.special_tokens.empty()) training.special_tokens = {"<|begin_of_text|>", "<|end_of_text|>"};
  if (options.threads == 0) options.threads = data::usable_cores();
  for (const Pattern& p : patterns())
    if (p.name == pattern) training.pattern = p.regex;

  const auto start = std::chrono::steady_clock::now();
  data::HashProgress hashing;
  const data::Discovery found = data::discover(options, hashing);
  Progress progress;
  const tokenizer::TrainedBpe bpe = [&] {
    const ProgressLine drawn([&] { return progress_text(progress); });
    const tokenizer::PieceCounts counts = count_pieces(found, rules, training.pattern, options.threads, progress);
    fmt::print("counted {} different pieces in {} of text, {} files\n", counts.size(), format_bytes(counts.bytes()),
               found.sources.size());
    progress.merges_total = training.vocab_size - 256 - static_cast<int64_t>(training.special_tokens.size());
    return tokenizer::train_bpe(counts, training, &progress.merges_done);
  }();
  write_file_atomic(out, tokenizer::huggingface_file(bpe));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("wrote {}: {} ids ({} special tokens, 256 bytes, {} merges) in {}\n", out.string(), bpe.tokens.size(),
             training.special_tokens.size(), bpe.merges.size(), format_duration(elapsed.count()));
  if (static_cast<int64_t>(bpe.tokens.size()) < training.vocab_size)
    fmt::print("fewer than {}: no other pair occurs {} times\n", training.vocab_size, training.min_frequency);
  return 0;
}

}  // namespace hearth::commands
