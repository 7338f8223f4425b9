// SPDX-License-Identifier: Apache-2.0
// `hearth data stats`: the content of a dataset, as numbers and as a picture.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "data/study/stats.h"
#include "data/study/token_weights.h"
#include "formats/npy.h"
#include "machine/cores.h"
#include "report/stats_page.h"

namespace hearth::commands {
namespace {

using data::SplitStats;
using Json = nlohmann::ordered_json;

constexpr int64_t kWeightCap = 10;

std::string text_of(const tokenizer::Tokenizer& tokenizer, int64_t id) {
  std::string text;
  tokenizer.decode(static_cast<uint32_t>(id), text);
  return text;
}

// Escaped for one line of a terminal: "\n", "\x80".
std::string shown(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (c == '"' || c == '\\')
      line += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && text.size() == 1))
      line += fmt::format("\\x{:02x}", byte);
    else
      line += c;
  }
  return '"' + line + '"';
}

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_split(const SplitStats& s, const tokenizer::Tokenizer& tokenizer, int64_t top) {
  fmt::print("\n{}\n", s.name);
  fmt::print("  documents       {}, of {} to {} tokens, {:.1f} on average\n", s.documents, s.shortest, s.longest,
             static_cast<double>(s.tokens) / static_cast<double>(s.documents));
  fmt::print("  tokens          {}{}; {} of {} ids occur\n", s.tokens,
             s.text_bytes > 0 ? fmt::format(", {:.3f} bytes of text each", s.bytes_per_token()) : "", s.used_tokens(),
             s.token_counts.size());
  if (s.weights) fmt::print("  in the loss     {}\n", data::describe_weights(*s.weights, s.tokens));
  fmt::print("  duplicates      {} equal to an earlier one: {:.2f} % of the tokens\n",
             counted(s.duplicates, "document"), percent(s.duplicate_tokens, s.tokens));
  if (s.in_earlier_splits > 0)
    fmt::print("  overlap         {} also in a split before this one\n", counted(s.in_earlier_splits, "document"));

  fmt::print("  length, tokens        documents          tokens\n");
  constexpr int kBar = 40;
  for (const data::LengthBin& bin : s.lengths) {
    const auto bar = static_cast<size_t>(std::lround(percent(bin.tokens, s.tokens) / 100 * kBar));
    fmt::print("  {:>9} to {:<9}{:>9}{:>16} {:5.1f} %  {}\n", bin.least, bin.most, bin.documents, bin.tokens,
               percent(bin.tokens, s.tokens), std::string(bar, '#'));
  }
  fmt::print("  most frequent tokens\n");
  for (const int64_t id : s.most_frequent(top)) {
    const int64_t count = s.token_counts[static_cast<size_t>(id)];
    fmt::print("  {:>9}{:>16} {:5.2f} %  {}\n", id, count, percent(count, s.tokens), shown(text_of(tokenizer, id)));
  }
}

Json to_json(const SplitStats& s, const tokenizer::Tokenizer& tokenizer, int64_t top) {
  Json lengths = Json::array(), frequent = Json::array();
  for (const data::LengthBin& bin : s.lengths)
    lengths.push_back({{"least", bin.least}, {"most", bin.most}, {"documents", bin.documents}, {"tokens", bin.tokens}});
  for (const int64_t id : s.most_frequent(top))
    frequent.push_back(
        {{"id", id}, {"count", s.token_counts[static_cast<size_t>(id)]}, {"text", text_of(tokenizer, id)}});
  Json json = {{"name", s.name},
               {"documents", s.documents},
               {"tokens", s.tokens},
               {"text_bytes", s.text_bytes},
               {"bytes_per_token", s.bytes_per_token()},
               {"shortest", s.shortest},
               {"longest", s.longest},
               {"ids_used", s.used_tokens()},
               {"duplicates", s.duplicates},
               {"duplicate_tokens", s.duplicate_tokens},
               {"in_earlier_splits", s.in_earlier_splits},
               {"lengths", std::move(lengths)},
               {"most_frequent", std::move(frequent)}};
  if (s.weights) {
    json["counted_tokens"] = s.weights->counted;
    json["weight_sum"] = s.weights->sum;
  }
  return json;
}

void write_token_weights(const std::vector<SplitStats>& all, const tokenizer::Tokenizer& tokenizer, int64_t cap,
                         const Path& path) {
  const auto train = std::find_if(all.begin(), all.end(), [](const SplitStats& s) { return s.name == "train"; });
  if (train == all.end()) throw user_error("the dataset has no training split to weigh");
  formats::write_npy_vector(path, data::token_weights(*train, tokenizer, cap < 0 ? kWeightCap : cap));
}

}  // namespace

int data_stats(CommandLine& line) {
  Path folder, plot;
  int64_t threads = 0, top = 20;
  int64_t weight_cap = -1;
  Path weights_file;
  bool json = false;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.option("--top N", &top, at_least(0), "most frequent tokens to show");
  line.option("--threads N", &threads, within(0, 4096), "that read; 0: one per core");
  line.option("--token-weights FILE", &weights_file,
              "write 1 / probability of each token of the training split, a .npy that training.token_weights reads");
  line.option("--weight-cap ID", &weight_cap, at_least(-1), "the highest weight is the weight of token ID; -1: 10");
  line.flag("--json", &json, "one JSON object instead of lines for people");
  line.option("--plot FILE", &plot, "also write the statistics as one HTML page");
  if (!line.parse()) return 0;
  if (weight_cap >= 0 && weights_file.empty())
    throw user_error("--weight-cap goes with --token-weights", "", "give --token-weights FILE, or remove it");
  const data::Dataset dataset = data::Dataset::open(folder);
  const auto tokenizer = dataset.open_tokenizer();
  const auto all = data::dataset_stats(dataset, threads == 0 ? machine::available_cores() : threads);
  if (!plot.empty()) {
    const auto token_text = [&tokenizer](int64_t id) { return shown(text_of(*tokenizer, id)); };
    write_file_atomic(plot, report::stats_page({folder.string(), dataset.manifest().identity, top, token_text}, all));
  }
  if (!weights_file.empty()) write_token_weights(all, *tokenizer, weight_cap, weights_file);
  if (json) {
    Json object = {{"identity", dataset.manifest().identity},
                   {"vocab_size", dataset.manifest().vocab_size},
                   {"splits", Json::array()}};
    for (const SplitStats& split : all) object["splits"].push_back(to_json(split, *tokenizer, top));
    // A token may be part of a character: bytes that are not UTF-8 are replaced.
    fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}\n", folder.string());
  for (const SplitStats& split : all) print_split(split, *tokenizer, top);
  return 0;
}

}  // namespace hearth::commands
