#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "commands/commands.h"
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

// On a terminal: one line on stderr until the object goes.
class ProgressLine {
 public:
  explicit ProgressLine(const Progress& progress) : progress_(progress) {
    if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { draw_until_done(); });
  }
  ~ProgressLine() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
    fmt::print(stderr, "\r\033[K");
  }

 private:
  void draw_until_done() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return done_; })) {
      const bool merging = progress_.merges_total > 0;
      const auto done = static_cast<double>(merging ? progress_.merges_done : progress_.bytes_done);
      const auto total = static_cast<double>(merging ? progress_.merges_total : progress_.bytes_total);
      constexpr int kWidth = 30;
      const double share = total > 0 ? std::min(done / total, 1.0) : 0;
      const auto filled = static_cast<int>(share * kWidth);
      fmt::print(stderr, "\r\033[K{:8} [{:#>{}}{:.>{}}] {:3.0f} %", merging ? "merging" : "counting", "", filled, "",
                 kWidth - filled, share * 100);
      std::fflush(stderr);
    }
  }

  const Progress& progress_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

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
  data::DiscoverOptions options;
  data::BuildRules rules;
  tokenizer::BpeTraining training;
  Path out;
  std::string pattern = "llama3";
  bool overwrite = false;
  std::vector<std::string> names;
  for (const Pattern& p : patterns()) names.emplace_back(p.name);

  line.positional("PATH", &options.paths, "files or folders of text; folders with all they contain");
  line.option("--vocab-size", "N", &training.vocab_size, "ids in all: special tokens, 256 bytes, one a merge")
      .required()
      .range(1, 1 << 26);
  line.option("--out", "FILE", &out, "tokenizer.json to write").required();
  line.option("--special-token", "TEXT", &training.special_tokens,
              "reserve an id for it, from 0 on; repeatable; none given: <|begin_of_text|> and <|end_of_text|>");
  line.option("--pattern", "NAME", &pattern, "which tokenizer's rule cuts text into pieces").choices(names);
  line.option("--min-frequency", "N", &training.min_frequency, "do not merge pairs that occur less often")
      .range(1, 1e15);
  line.option("--validation", "FRACTION", &rules.validation,
              "leave out the documents that data build holds out with the same value");
  line.option("--include", "GLOB", &options.include,
              "only files of folders whose name matches, such as \"*.txt\"; repeatable");
  options.threads = 0;
  line.option("--threads", "N", &options.threads, "0: one per core").range(0, 4096);
  line.flag("--overwrite", &overwrite, "replace FILE");
  if (!line.parse()) return 0;
  if (!overwrite && path_exists(out))
    throw user_error(fmt::format("{} is there already", out.string()), "", "choose another --out, or add --overwrite");
  if (training.special_tokens.empty()) training.special_tokens = {"<|begin_of_text|>", "<|end_of_text|>"};
  if (options.threads == 0) options.threads = data::usable_cores();
  for (const Pattern& p : patterns())
    if (p.name == pattern) training.pattern = p.regex;

  const auto start = std::chrono::steady_clock::now();
  data::HashProgress hashing;
  const data::Discovery found = data::discover(options, hashing);
  Progress progress;
  const tokenizer::TrainedBpe bpe = [&] {
    const ProgressLine drawn(progress);
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
