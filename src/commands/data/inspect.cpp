// SPDX-License-Identifier: Apache-2.0
// `hearth data inspect`: what a dataset holds.
#include <algorithm>

#include "commands/commands.h"
#include "data/shard/dataset.h"
#include "recordings/vocabulary.h"

namespace hearth::commands {
namespace {

constexpr size_t kSourcesShown = 10;

void print_rules(const data::DatasetManifest& m) {
  fmt::print("identity    {}\n", m.identity);
  fmt::print("tokenizer   {}, {} tokens, hash {}\n", m.rules.tokenizer, m.vocab_size, m.tokenizer_hash);
  if (recordings::is_name_of_arrays(m.rules.tokenizer))
    fmt::print(
        "arrays      {}, {}\n",
        m.rules.n_fixed > 0 ? fmt::format("{} neurons each", m.rules.n_fixed) : "each with its own number of neurons",
        m.rules.source_dataset.empty() ? "of every source_dataset" : "of " + m.rules.source_dataset);
  else
    fmt::print("documents   {}, {}\n", m.rules.bos ? "BOS before each" : "no BOS",
               m.rules.eos ? "EOS after each" : "no EOS");
  if (m.rules.read.document_bytes > 0)
    fmt::print("            files cut after about {}\n", format_bytes(m.rules.read.document_bytes));
  if (!m.rules.split.empty()) fmt::print("splits      by position, {}\n", m.rules.split);
  if (m.rules.in_place) fmt::print("tokens      in place: in the sources below, which must stay as they are\n");
  fmt::print("dropped     {}, {}, {}, {} that are not files\n", counted(m.links_resolved, "link"),
             counted(m.duplicates_dropped, "duplicate"), counted(m.empty_dropped, "empty file"), m.skipped);
  if (m.left_out > 0) fmt::print("left out    {} in folders: hidden, or no data\n", counted(m.left_out, "name"));
  fmt::print("not UTF-8   {} in {} ({})\n", counted(m.records.invalid_utf8_bytes, "byte"),
             counted(m.records.invalid_utf8_documents, "document"),
             m.invalid_bytes_replaced > 0 ? "replaced by U+FFFD" : "kept");
}

void print_splits(const data::DatasetManifest& m) {
  fmt::print("\n{:<12}{:>10}{:>16}{:>16}{:>8}{:>12}\n", "split", "documents", "tokens", "text bytes", "shards",
             "on disk");
  for (const data::SplitEntry& split : m.splits) {
    int64_t size = 0;
    for (const data::ShardEntry& shard : split.shards) size += shard.size_bytes;
    fmt::print("{:<12}{:>10}{:>16}{:>16}{:>8}{:>12}\n", split.name, split.documents, split.tokens, split.text_bytes,
               split.shards.size(), format_bytes(size));
  }
  for (const data::SplitEntry& split : m.splits)
    if (const auto weights = split.weights())
      fmt::print("{:<12}{}\n", split.name, data::describe_weights(*weights, split.tokens));
}

void print_sources(const data::DatasetManifest& m, bool all) {
  fmt::print("\n{}\n", counted(std::ssize(m.sources), "source"));
  const size_t shown = all ? m.sources.size() : std::min(m.sources.size(), kSourcesShown);
  for (size_t i = 0; i < shown; ++i)
    fmt::print("{:>12}  {}\n", format_bytes(m.sources[i].size_bytes), printable(m.sources[i].path));
  if (shown < m.sources.size())
    fmt::print("{:>12}  and {} more (--sources lists them)\n", "", m.sources.size() - shown);
}

}  // namespace

int data_inspect(CommandLine& line) {
  Path folder;
  bool json = false, all_sources = false;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.flag("--sources", &all_sources, "list every source file");
  line.flag("--json", &json, "print the manifest as JSON");
  if (!line.parse()) return 0;
  const data::Dataset dataset = data::Dataset::open(folder);  // finds missing and truncated shards, too
  if (json) {
    fmt::print("{}", data::manifest_text(dataset.manifest()));
    return 0;
  }
  print_rules(dataset.manifest());
  print_splits(dataset.manifest());
  print_sources(dataset.manifest(), all_sources);
  return 0;
}

}  // namespace hearth::commands
