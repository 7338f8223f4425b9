// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer train`: a vocabulary of BPE from text, or of patches from arrays of counts.
#include <memory>

#include "commands/commands.h"
#include "commands/counted_pieces.h"
#include "commands/progress_line.h"
#include "commands/recordings/train_patches.h"
#include "commands/shared_options.h"
#include "data/source/beside_records.h"
#include "machine/cores.h"
#include "tokenizer/bpe/train.h"
#include "tokenizer/pretokenizer/pretokenizer.h"

namespace hearth::commands {
namespace {

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

// The options as typed.
struct Request {
  SourceOptions sources;
  data::DiscoverOptions discovery;
  data::BuildRules rules;
  int64_t vocab_size = 0;
  Path out;
  std::string kind = "bpe";
  bool overwrite = false;
  // Only for bpe; empty and 0: not given.
  std::vector<std::string> special_tokens;
  std::string pattern;
  int64_t min_frequency = 0;
  // Only for patches.
  std::string patch;
};

void declare(CommandLine& line, Request& r) {
  std::vector<std::string> names;
  for (const Pattern& p : patterns()) names.emplace_back(p.name);
  r.sources.declare(line);
  line.option("--vocab-size N", &r.vocab_size, within(1, 1 << 26),
              "number of ids: special tokens, 256 bytes, one per merge; or one per patch, and BOS")
      .required();
  line.option("--out FILE", &r.out, "tokenizer.json, or tokenizer.patches, to write").required();
  line.option("--kind KIND", &r.kind, one_of({"bpe", "patches"}), "bpe, of text; or patches, of arrays of counts");
  line.option("--special-token TEXT", &r.special_tokens,
              "reserve an id for it, from 0 on; none given: <|begin_of_text|> and <|end_of_text|>");
  line.option("--pattern NAME", &r.pattern, one_of(names),
              "the tokenizer whose rule cuts text into pieces; default: llama3");
  line.option("--min-frequency N", &r.min_frequency, within(1, 1e15),
              "do not merge pairs that occur less often; none given: 2");
  line.option("--patch PxQ", &r.patch, "neurons x time bins of a patch; none given: 1x15");
  line.option("--validation FRACTION", &r.rules.validation,
              "leave out the documents that data build holds out with the same value");
  r.discovery.threads = 0;
  line.option("--threads N", &r.discovery.threads, within(0, 4096), "0: one per core");
  line.flag("--overwrite", &r.overwrite, "replace FILE");
}

void check(const Request& r) {
  const auto refuse = [&](bool given, std::string_view option) {
    if (given) throw user_error(fmt::format("{} has no meaning with --kind {}", option, r.kind), "", "remove it");
  };
  if (r.kind == "bpe") {
    refuse(!r.patch.empty(), "--patch");
    refuse(!r.sources.source_dataset.empty(), "--source-dataset");
  } else {
    refuse(!r.special_tokens.empty(), "--special-token");
    refuse(!r.pattern.empty(), "--pattern");
    refuse(r.min_frequency > 0, "--min-frequency");
    if (r.vocab_size < 2)
      throw user_error("--vocab-size 1 is too small", "a patch and BOS need two ids", "give 32000, say");
  }
  if (!r.overwrite && path_exists(r.out))
    throw user_error(fmt::format("{} exists already", r.out.string()), "", "choose another --out, or add --overwrite");
}

CountDocument text_counter(const tokenizer::Pretokenizer& cuts) {
  return [cutter = std::make_shared<tokenizer::Pretokenizer::Cutter>(cuts), batch = std::vector<std::string_view>()](
             const data::Document& document, const std::string& path, tokenizer::PieceCounts& counts) mutable {
    if (document.is_ids || document.array != nullptr)
      throw user_error(fmt::format("{} holds {}", path, document.is_ids ? "token ids" : "an array"),
                       "a BPE tokenizer is trained on text",
                       document.is_ids ? "leave it out" : "leave it out, or give --kind patches");
    cutter->start(document.data);
    while (cutter->next(batch))
      for (const std::string_view piece : batch) counts.add(piece);
  };
}

void train_bpe_tokenizer(const Request& r, const data::Discovery& found) {
  tokenizer::BpeTraining training;
  training.vocab_size = r.vocab_size;
  training.special_tokens = r.special_tokens;
  if (training.special_tokens.empty()) training.special_tokens = {"<|begin_of_text|>", "<|end_of_text|>"};
  if (r.min_frequency > 0) training.min_frequency = r.min_frequency;
  for (const Pattern& p : patterns())
    if (p.name == (r.pattern.empty() ? "llama3" : r.pattern)) training.pattern = p.regex;

  const Stopwatch clock;
  TrainingProgress progress;
  const tokenizer::TrainedBpe bpe = [&] {
    const ProgressLine drawn([&] { return progress.text("merging"); });
    const tokenizer::Pretokenizer cuts({{training.pattern}});
    const tokenizer::PieceCounts counts = count_pieces(
        found, r.rules, r.discovery.threads, [&cuts] { return text_counter(cuts); }, progress);
    fmt::print("counted {} different pieces in {} of text, {}\n", counts.size(), format_bytes(counts.bytes()),
               counted(std::ssize(found.sources), "file"));
    progress.items_total = training.vocab_size - 256 - static_cast<int64_t>(training.special_tokens.size());
    return tokenizer::train_bpe(counts, training, &progress.items_done);
  }();
  write_file_atomic(r.out, tokenizer::huggingface_file(bpe));
  fmt::print("wrote {}: {} ids ({} special tokens, 256 bytes, {} merges) in {}\n", r.out.string(), bpe.tokens.size(),
             training.special_tokens.size(), bpe.merges.size(), format_duration(clock.seconds()));
  if (static_cast<int64_t>(bpe.tokens.size()) < training.vocab_size)
    fmt::print("fewer than {}: no other pair occurs {}\n", training.vocab_size,
               counted(training.min_frequency, "time"));
}

}  // namespace

int tokenizer_train(CommandLine& line) {
  Request r;
  declare(line, r);
  if (!line.parse()) return 0;
  check(r);
  r.sources.apply(r.discovery, r.rules);
  if (r.rules.read.text_keys.empty()) r.rules.read.text_keys = {data::default_text_key(r.kind == "patches")};
  data::check_read_rules(r.rules.read);
  r.discovery.read = r.rules.read;
  if (r.discovery.threads == 0) r.discovery.threads = machine::available_cores();
  data::HashProgress hashing;
  const data::Discovery found = data::discover(r.discovery, hashing);
  if (!found.left_out.empty()) fmt::print("left out of folders: {}\n", data::describe_left_out(found.left_out));
  if (!found.texts_beside.empty()) fmt::print("{}\n", data::describe_texts_beside(found.texts_beside));
  if (!found.texts_about.empty()) fmt::print("{}\n", data::describe_texts_about(found.texts_about));
  if (r.kind == "bpe")
    train_bpe_tokenizer(r, found);
  else
    train_patch_tokenizer(found, r.rules, parse_patch_shape(r.patch.empty() ? "1x15" : r.patch), r.vocab_size,
                          r.discovery.threads, r.out);
  return 0;
}

}  // namespace hearth::commands
