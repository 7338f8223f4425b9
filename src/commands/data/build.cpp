#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/quantity.h"
#include "commands/commands.h"
#include "commands/data/first_document.h"
#include "commands/data/split_rows.h"
#include "commands/progress_line.h"
#include "commands/source_options.h"
#include "commands/tokenizer/options.h"
#include "data/build/build.h"
#include "data/build/positional_split.h"
#include "data/shard/array_stream.h"
#include "data/source/beside_records.h"
#include "machine/cores.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The current stage of the build, its progress and its speed. One thread at a time calls it.
class BuildLine {
 public:
  explicit BuildLine(const data::BuildProgress& progress) : progress_(progress), start_(Clock::now()) {}

  std::string operator()() {
    const bool writing = progress_.source_bytes_total > 0;
    if (writing && writing_since_s_ < 0) writing_since_s_ = seconds_since(start_);
    const auto done = static_cast<double>(writing ? progress_.source_bytes_done : progress_.hashing.bytes_read);
    const auto total = static_cast<double>(writing ? progress_.source_bytes_total : progress_.hashing.bytes_total);
    const double elapsed = seconds_since(start_) - (writing ? writing_since_s_ : 0);
    const double rate = done / std::max(elapsed, 1e-3);
    std::string line = progress_bar(writing ? "writing" : "reading", total > 0 ? done / total : 0) +
                       fmt::format("  {:.1f} MB/s", rate / 1e6);
    if (writing)
      line += fmt::format("  {} tokens/s",
                          format_count(static_cast<double>(progress_.tokens_done) / std::max(elapsed, 1e-3)));
    if (rate > 0) line += fmt::format("  {} left", format_duration((total - done) / rate));
    return line;
  }

 private:
  const data::BuildProgress& progress_;
  Clock::time_point start_;
  double writing_since_s_ = -1;
};

void print_found(const data::BuildResult& result) {
  const data::Manifest& m = result.manifest;
  int64_t bytes = 0;
  for (const data::SourceFile& source : m.sources) bytes += source.size_bytes;
  fmt::print("found {}, {}", counted(std::ssize(m.sources), "file"), format_bytes(bytes));
  fmt::print(" (links resolved: {}, duplicates dropped: {}, empty: {}, not files: {})\n", m.links_resolved,
             m.duplicates_dropped, m.empty_dropped, m.skipped);
  if (!result.left_out.empty()) fmt::print("left out of folders: {}\n", data::describe_left_out(result.left_out));
  if (!result.texts_beside.empty()) fmt::print("{}\n", data::describe_texts_beside(result.texts_beside));
  const data::RecordCounts& records = m.records;
  if (records.invalid_utf8_bytes > 0)
    fmt::print("not UTF-8: {} in {}, {}\n", counted(records.invalid_utf8_bytes, "byte"),
               counted(records.invalid_utf8_documents, "document"),
               m.invalid_bytes_replaced > 0 ? "replaced by U+FFFD" : "kept");
  if (records.repaired > 0) fmt::print("repaired {} with U+FFFD\n", counted(records.repaired, "record"));
  for (size_t i = 0; i < records.skipped.size(); ++i) {
    if (records.skipped[i] > 0)
      fmt::print("skipped {}: {}\n", counted(records.skipped[i], "record"),
                 data::problem_name(static_cast<data::RecordProblem>(i)));
  }
  if (records.duplicates_dropped > 0)
    fmt::print("dropped {}\n", counted(records.duplicates_dropped, "repeated document"));
  if (records.other_source_dataset > 0)
    fmt::print("left out {} of another source_dataset\n", counted(records.other_source_dataset, "array"));
  if (records.empty_dropped > 0) fmt::print("dropped {}\n", counted(records.empty_dropped, "empty record"));
  print_split_rows(m);
  for (const data::SplitEntry& split : m.splits)
    if (const auto weights = split.weights())
      fmt::print("{:<10} {}\n", split.name, data::describe_weights(*weights, split.tokens));
}

void parse_part(const std::string& text, data::BuildOptions& options) {
  if (text.empty()) return;
  int end = 0;
  long long part = 0, count = 0;
  if (std::sscanf(text.c_str(), "%lld/%lld%n", &part, &count, &end) != 2 || static_cast<size_t>(end) != text.size() ||
      part < 1 || part > count)
    throw user_error(fmt::format("--part {} names no part", text), "", "give I/N with I from 1 to N, such as 3/8");
  options.part = part;
  options.num_parts = count;
}

// The options as typed.
struct BuildRequest {
  SourceOptions sources;
  data::BuildOptions options;
  data::ReadRules weights;  // only loss_keys, labels_key and weights_key
  int64_t vocab_size = 0;
  std::string bos, eos, split, dedup = "none", part;
};

void declare_rules(CommandLine& line, BuildRequest& r) {
  data::BuildRules& rules = r.options.rules;
  line.option("--tokenizer", "FILE", &rules.tokenizer,
              "\"bytes\" (256 bytes, BOS and EOS), a tokenizer.json or .model, or a folder that holds one; for arrays "
              "of counts \"spikes\" (counts 0 to 254, BOS = 255 before each time bin; \"spikes:N\": BOS = N - 1), or a "
              "tokenizer.patches");
  line.option("--n-fixed", "N", &rules.n_fixed,
              "read each array as N neurons: arrays with fewer repeat them; arrays with more give N neighbours, drawn "
              "in each pass; 0: "
              "as they are")
      .range(0, data::kMostNeurons);
  line.option("--vocab-size", "N", &r.vocab_size, "for sources of token ids without their tokenizer: ids are below N")
      .range(0, 1LL << 31);
  line.option("--validation", "FRACTION", &rules.validation,
              "share of the documents that is held out, chosen by a hash of their content");
  line.option("--split", "SHARES", &r.split,
              "of train, validation and test by the documents' position, as Megatron and GPT-NeoX do: 969,30,1");
  line.option("--bos", "WHERE", &r.bos, "before each document, or none; not given: as the tokenizer's template says")
      .choices({"none", "document"});
  line.option("--eos", "WHERE", &r.eos, "after each document, or none; not given: after each document")
      .choices({"none", "document"});
  line.option("--bos-token", "TEXT", &r.options.bos_token,
              "the special token BOS, if the tokenizer does not define it");
  line.option("--eos-token", "TEXT", &r.options.eos_token,
              "the special token EOS, if the tokenizer does not define it");
  declare_meta_cuts(line, &r.options.without_meta_cuts);
  line.flag(
      "--in-place", &rules.in_place,
      "do not copy token files (.bin): DIR stores only the documents' places and checksums; the files must not change");
  line.flag("--drop-empty", &rules.drop_empty, "leave out records without text");
  line.option("--dedup", "WHAT", &r.dedup, "exact: leave out documents whose text is that of an earlier one")
      .choices({"none", "exact"});
  line.option("--shard-tokens", "N", &rules.shard_tokens, "close a shard when its text reaches N bytes");
}

void declare_weights(CommandLine& line, BuildRequest& r) {
  line.option(
      "--loss-key", "KEY", &r.weights.loss_keys,
      "some of the keys of --text-key: only tokens of these texts count in the loss, such as completion next to "
      "prompt; none given: all");
  line.option("--labels-key", "KEY", &r.weights.labels_key,
              "for tables of token ids: a column of labels, -100 for tokens that do not count");
  line.option("--weights-key", "KEY", &r.weights.weights_key,
              "of token ids: a column of weights of the loss, or of truth values, one a token; of text: one number for "
              "all its tokens");
  line.option("--labels", "PATH", &r.options.labels,
              "of a token file: one with its labels, -100 where a token does not count, as GPT-NeoX has it; as often "
              "as PATH");
}

data::BuildOptions options_of(BuildRequest r) {
  data::BuildOptions options = std::move(r.options);
  if (r.vocab_size > 0) {
    if (options.rules.tokenizer != data::BuildRules().tokenizer)
      throw user_error("--tokenizer and --vocab-size are both given", "the tokenizer knows its size",
                       "give one of them");
    options.rules.tokenizer = fmt::format("ids:{}", r.vocab_size);
  }
  if (!r.split.empty()) options.rules.split = data::parse_split(r.split);
  if (!r.bos.empty()) options.bos = r.bos == "document";
  if (!r.eos.empty()) options.eos = r.eos == "document";
  data::GivenPaths given = r.sources.all_paths();
  options.paths = std::move(given.paths);
  options.patterns = std::move(given.patterns);
  options.include = r.sources.include;
  options.exclude = r.sources.exclude;
  options.kinds = r.sources.kind_rules();
  options.rules.read = r.sources.read_rules();
  options.rules.read.loss_keys = r.weights.loss_keys;
  options.rules.read.labels_key = r.weights.labels_key;
  options.rules.read.weights_key = r.weights.weights_key;
  options.rules.on_error = r.sources.error_policy();
  options.rules.dedup_exact = r.dedup == "exact";
  options.rules.source_dataset = r.sources.source_dataset;
  parse_part(r.part, options);
  if (options.threads == 0) options.threads = machine::available_cores();
  return options;
}

}  // namespace

int data_build(CommandLine& line) {
  BuildRequest request;
  request.sources.declare(line);
  line.option("--out", "DIR", &request.options.out, "folder to make").required();
  declare_rules(line, request);
  declare_weights(line, request);
  line.option("--part", "I/N", &request.part, "build part I of N alone; `hearth data merge` merges them");
  line.option("--portion-bytes", "N", &request.options.portion_bytes,
              "parts have whole portions: runs of files, or pieces of large ones, of about N bytes; never less than "
              "--shard-tokens says. Smaller portions share a small corpus among more parts")
      .range(1, 1LL << 40);
  request.options.threads = 0;
  line.option("--threads", "N", &request.options.threads, "files and shards worked on at a time; 0: one per core")
      .range(0, 4096);
  line.flag("--overwrite", &request.options.overwrite, "replace a different dataset in DIR");
  if (!line.parse()) return 0;
  const data::BuildOptions options = options_of(std::move(request));

  data::BuildProgress progress;
  const auto start = Clock::now();
  const data::BuildResult result = [&] {
    const ProgressLine drawn{BuildLine(progress)};
    return data::build_dataset(options, progress);
  }();
  const double elapsed = seconds_since(start);

  print_found(result);
  if (result.was_complete) {
    fmt::print("{} is complete already: nothing to do\n", options.out.string());
    return 0;
  }
  fmt::print("wrote {} of {} to {} in {} ({:.1f} MB/s, {} tokens/s)\n", counted(result.shards_written, "shard"),
             result.shards_written + result.shards_kept, options.out.string(), format_duration(elapsed),
             static_cast<double>(progress.text_bytes_done) / elapsed / 1e6,
             format_count(static_cast<double>(progress.tokens_done) / elapsed));
  if (options.num_parts == 1) print_first_document(data::Dataset::open(options.out));
  return 0;
}

}  // namespace hearth::commands
