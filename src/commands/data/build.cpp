// SPDX-License-Identifier: Apache-2.0
// `hearth data build`: a dataset of text, token files or recordings.
#include <algorithm>

#include "commands/commands.h"
#include "commands/data/split_rows.h"
#include "commands/progress_line.h"
#include "commands/recordings/array_view.h"
#include "commands/shared_options.h"
#include "data/build/build.h"
#include "data/build/positional_split.h"
#include "data/source/beside_records.h"
#include "machine/cores.h"
#include "recordings/array_stream.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {
namespace {

constexpr int64_t kFirstTokens = 32, kFirstBins = 60, kFirstNeurons = 8;

// The current stage of the build, its progress and its speed. One thread at a time calls the function.
std::function<std::string()> build_line(const data::BuildProgress& progress) {
  return [&progress, clock = Stopwatch(), writing_since_s = -1.0]() mutable {
    const bool writing = progress.source_bytes_total > 0;
    if (writing && writing_since_s < 0) writing_since_s = clock.seconds();
    const auto done = static_cast<double>(writing ? progress.source_bytes_done : progress.hashing.bytes_read);
    const auto total = static_cast<double>(writing ? progress.source_bytes_total : progress.hashing.bytes_total);
    const double elapsed = clock.seconds() - (writing ? writing_since_s : 0);
    const double rate = done / std::max(elapsed, 1e-3);
    std::string line = progress_bar(writing ? "writing" : "reading", total > 0 ? done / total : 0) +
                       fmt::format("  {:.1f} MB/s", rate / 1e6);
    if (writing)
      line += fmt::format("  {} tokens/s",
                          format_count(static_cast<double>(progress.tokens_done) / std::max(elapsed, 1e-3)));
    if (rate > 0) line += fmt::format("  {} left", format_duration((total - done) / rate));
    return line;
  };
}

// "BOS <s> (1) before each document", "no BOS".
std::string place_of(const char* name, bool used, int64_t id, const tokenizer::Tokenizer& tokenizer,
                     const char* where) {
  if (!used) return fmt::format("no {}", name);
  for (const tokenizer::SpecialToken& token : tokenizer.special_tokens())
    if (token.id == id) return fmt::format("{} {} ({}) {}", name, token.text, id, where);
  return fmt::format("{} ({}) {}", name, id, where);
}

std::string decode(const std::vector<int32_t>& ids, const tokenizer::Tokenizer& tokenizer) {
  const std::vector<tokenizer::SpecialToken> special = tokenizer.special_tokens();
  std::string text;
  for (const int32_t id : ids) {
    const auto found = std::find_if(special.begin(), special.end(),
                                    [&](const auto& token) { return token.id == static_cast<uint32_t>(id); });
    if (found != special.end())
      text += found->text;
    else
      tokenizer.decode(static_cast<uint32_t>(id), text);
  }
  return text;
}

void print_first_array(const data::Split& split) {
  fmt::print("BOS ({}) before each {}; no EOS\n", split.arrays()->vocabulary().bos(),
             split.arrays()->vocabulary().patch_shape().bins == 1 ? "time bin" : "column of patches");
  fmt::print("first array:\n");
  print_array_labels(split, 0);
  const int64_t shown = kFirstBins * split.arrays()->column_tokens(split.array(0).shape);
  print_array(split, 0, 0, std::min(split.document_begin(1), shown), {}, kFirstNeurons);
}

// The tokens around documents, the count of special text, and the first document's first tokens: they show a wrong BOS
// or EOS before a training.
void print_first_document(const data::Dataset& dataset) {
  const data::DatasetManifest& m = dataset.manifest();
  const auto tokenizer = dataset.open_tokenizer();
  if (dataset.has_split("train") && dataset.split("train").arrays() != nullptr)
    return print_first_array(dataset.split("train"));
  fmt::print("tokenizer {}, {} ids; {}; {}\n", tokenizer->name(), tokenizer->vocab_size(),
             place_of("BOS", m.rules.bos, m.bos, *tokenizer, "before each document"),
             place_of("EOS", m.rules.eos, m.eos, *tokenizer, "after each document"));
  if (m.special_text_seen > 0)
    fmt::print("the text spells special tokens {}; they stay text\n", counted(m.special_text_seen, "time"));
  if (m.invalid_bytes_replaced > 0)
    fmt::print("{} not in UTF-8 became U+FFFD: this tokenizer has no tokens for such bytes\n",
               counted(m.invalid_bytes_replaced, "byte"));
  if (!dataset.has_split("train")) return;
  const data::Split& split = dataset.split("train");
  const int64_t length = split.document_begin(1);
  std::vector<int32_t> ids(static_cast<size_t>(std::min(length, kFirstTokens)));
  split.read(0, ids);
  const char* more = length > kFirstTokens ? " ..." : "";
  std::vector<float> weights(ids.size());
  split.read_weights(0, weights);
  std::string numbers;
  for (size_t i = 0; i < ids.size(); ++i)
    numbers += weights[i] == 0 ? fmt::format(" ({})", ids[i]) : fmt::format(" {}", ids[i]);
  if (split.weights()) fmt::print("in brackets: tokens that do not count in the loss\n");
  fmt::print("first document:{}{}\n  | {}{}\n", numbers, more, printable(decode(ids, *tokenizer)), more);
}

void print_found(const data::BuildResult& result) {
  const data::DatasetManifest& m = result.manifest;
  int64_t bytes = 0;
  for (const data::SourceFile& source : m.sources) bytes += source.size_bytes;
  fmt::print("found {}, {}", counted(std::ssize(m.sources), "file"), format_bytes(bytes));
  fmt::print(" (links resolved: {}, duplicates dropped: {}, empty: {}, not files: {})\n", m.links_resolved,
             m.duplicates_dropped, m.empty_dropped, m.skipped);
  if (!result.left_out.empty()) fmt::print("left out of folders: {}\n", data::describe_left_out(result.left_out));
  if (!result.texts_beside.empty()) fmt::print("{}\n", data::describe_texts_beside(result.texts_beside));
  if (!result.texts_about.empty()) fmt::print("{}\n", data::describe_texts_about(result.texts_about));
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
  int64_t vocab_size = 0;
  std::string bos, eos, split, dedup = "none", part;
};

void declare_rules(CommandLine& line, BuildRequest& r) {
  data::BuildRules& rules = r.options.rules;
  line.option("--tokenizer FILE", &rules.tokenizer,
              "\"bytes\" (256 bytes, BOS and EOS), a tokenizer.json or .model, or a folder that holds one; for arrays "
              "of counts \"spikes\" (counts 0 to 254, BOS = 255 before each time bin; \"spikes:N\": BOS = N - 1), or a "
              "tokenizer.patches");
  line.option("--n-fixed N", &rules.n_fixed, within(0, recordings::kMostNeurons),
              "read each array as N neurons: arrays with fewer repeat them; arrays with more give N neighbours, drawn "
              "in each pass; 0: as they are");
  line.option("--vocab-size N", &r.vocab_size, within(0, 1LL << 31),
              "for sources of token ids without their tokenizer: ids are below N");
  line.option("--validation FRACTION", &rules.validation,
              "share of the documents that is held out, chosen by a hash of their content");
  line.option("--split SHARES", &r.split,
              "of train, validation and test by the documents' position, as Megatron and GPT-NeoX do: 969,30,1");
  declare_ends(line, r.bos, r.eos);
  declare_special_tokens(line, r.options.bos_token, r.options.eos_token, r.options.without_meta_cuts);
  line.flag(
      "--in-place", &rules.in_place,
      "do not copy token files (.bin): DIR stores only the documents' places and checksums; the files must not change");
  line.flag("--drop-empty", &rules.drop_empty, "leave out records without text");
  line.option("--dedup WHAT", &r.dedup, one_of({"none", "exact"}),
              "exact: leave out documents whose text is that of an earlier one");
  line.option("--shard-tokens N", &rules.shard_tokens, "close a shard when its text reaches N bytes");
}

void declare_weights(CommandLine& line, BuildRequest& r) {
  line.option("--loss-key KEY", &r.sources.read.loss_keys,
              "some of the keys of --text-key: only tokens of these texts count in the loss, such as completion next "
              "to prompt; none given: all");
  line.option("--labels-key KEY", &r.sources.read.labels_key,
              "for tables of token ids: a column of labels, -100 for tokens that do not count");
  line.option("--weights-key KEY", &r.sources.read.weights_key,
              "of token ids: a column of weights of the loss, or of truth values, one a token; of text: one number for "
              "all its tokens");
  line.option(
      "--labels PATH", &r.options.labels,
      "of a token file: one with its labels, -100 where a token does not count, as GPT-NeoX has it; as often as PATH");
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
  r.sources.apply(options, options.rules);
  options.rules.dedup_exact = r.dedup == "exact";
  parse_part(r.part, options);
  if (options.threads == 0) options.threads = machine::available_cores();
  return options;
}

}  // namespace

int data_build(CommandLine& line) {
  BuildRequest request;
  request.sources.declare(line);
  line.option("--out DIR", &request.options.out, "folder to make").required();
  declare_rules(line, request);
  declare_weights(line, request);
  line.option("--part I/N", &request.part, "build part I of N alone; `hearth data merge` merges them");
  line.option("--portion-bytes N", &request.options.portion_bytes, within(1, 1LL << 40),
              "parts have whole portions: runs of files, or pieces of large ones, of about N bytes; never less than "
              "--shard-tokens says. Smaller portions share a small corpus among more parts");
  request.options.threads = 0;
  line.option("--threads N", &request.options.threads, within(0, 4096),
              "files and shards worked on at a time; 0: one per core");
  line.flag("--overwrite", &request.options.overwrite, "replace a different dataset in DIR");
  if (!line.parse()) return 0;
  const data::BuildOptions options = options_of(std::move(request));

  data::BuildProgress progress;
  const Stopwatch clock;
  const data::BuildResult result =
      with_progress(build_line(progress), [&] { return data::build_dataset(options, progress); });
  const double elapsed = clock.seconds();

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
