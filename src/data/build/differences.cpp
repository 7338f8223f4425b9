// SPDX-License-Identifier: Apache-2.0
#include "data/build/differences.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace hearth::data {
namespace {

constexpr size_t kNamedFiles = 3;  // of each kind of difference
constexpr size_t kNamedDifferences = 4;

struct TypedOption {
  std::string option, value;
};

std::string quoted(const std::string& text) {
  if (text.empty()) return "none";
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(quoted(text));
  return all.empty() ? "none" : join(all, " ");
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

// The values of all options, always in the same order. The bindings name every member of the rules: a new one does not
// compile without a change here.
std::vector<TypedOption> typed_options(const BuildRules& rules) {
  const auto& [tokenizer, bos, eos, validation, split, read, on_error, drop_empty, dedup_exact, in_place, n_fixed,
               source_dataset, shard_tokens] = rules;
  const auto& [format, document_bytes, text_keys, text_join, joins_first, max_record_bytes, dialect, vocab_size,
               loss_keys, labels_key, weights_key] = read;
  return {{"--tokenizer", tokenizer},
          {"--bos", bos ? "document" : "none"},
          {"--eos", eos ? "document" : "none"},
          {"--validation", fmt::format("{}", validation)},
          {"--split", split.empty() ? "none" : split},
          {"--on-error", std::string(on_error_name(on_error))},
          {"--drop-empty", yes_or_no(drop_empty)},
          {"--dedup", dedup_exact ? "exact" : "none"},
          {"--in-place", yes_or_no(in_place)},
          {"--n-fixed", std::to_string(n_fixed)},
          {"--source-dataset", quoted(source_dataset)},
          {"--shard-tokens", std::to_string(shard_tokens)},
          {"--format", format.empty() ? "found from the content" : format},
          {"--dialect", dialect.empty() ? "found from the sizes" : dialect},
          {"--document-bytes", std::to_string(document_bytes)},
          {"--text-key", quoted_list(text_keys)},
          {"--text-join", quoted(text_join)},
          {"--join-first", yes_or_no(joins_first)},
          {"--max-record-bytes", std::to_string(max_record_bytes)},
          {"--loss-key", quoted_list(loss_keys)},
          {"--labels-key", quoted(labels_key)},
          {"--weights-key", quoted(weights_key)}};
}

// The sources of two builds. Files at the same place belong together, then files of the same content.
struct PairedSources {
  std::vector<std::pair<const SourceFile*, const SourceFile*>> same_place, moved;
  std::vector<std::string> only_first, only_second;  // paths
};

PairedSources pair_sources(const std::vector<SourceFile>& first, const std::vector<SourceFile>& second) {
  PairedSources paired;
  std::map<std::string, const SourceFile*> by_place, by_content;
  for (const SourceFile& source : first) by_place[source.real_path] = &source;
  std::vector<const SourceFile*> left;
  for (const SourceFile& source : second) {
    const auto found = by_place.find(source.real_path);
    if (found == by_place.end()) {
      left.push_back(&source);
      continue;
    }
    paired.same_place.emplace_back(found->second, &source);
    by_place.erase(found);
  }
  for (const auto& [place, source] : by_place)
    if (!source->hash.empty()) by_content[source->hash] = source;
  for (const SourceFile* source : left) {
    const auto found = by_content.find(source->hash);
    if (found == by_content.end()) {
      paired.only_second.push_back(source->path);
      continue;
    }
    paired.moved.emplace_back(found->second, source);
    by_place.erase(found->second->real_path);
    by_content.erase(found);
  }
  for (const auto& [place, source] : by_place) paired.only_first.push_back(source->path);
  return paired;
}

bool same_order(const std::vector<SourceFile>& first, const std::vector<SourceFile>& second) {
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [](const SourceFile& a, const SourceFile& b) {
                      return a.real_path == b.real_path || (!a.hash.empty() && a.hash == b.hash);
                    });
}

std::vector<std::string> option_differences(const DatasetManifest& first, const DatasetManifest& second,
                                            TwoNames names) {
  std::vector<std::string> lines;
  const auto one = typed_options(first.rules), other = typed_options(second.rules);
  for (size_t i = 0; i < one.size(); ++i) {
    if (one[i].value != other[i].value)
      lines.push_back(
          fmt::format("{}: {} {}, {} {}", one[i].option, one[i].value, names.first, other[i].value, names.second));
  }
  if (first.rules.tokenizer == second.rules.tokenizer && first.tokenizer_hash != second.tokenizer_hash)
    lines.insert(lines.begin(),
                 fmt::format("--tokenizer: another {}, with {} ids {}, {} ids {} (hash {} and {})",
                             first.rules.tokenizer, first.vocab_size, names.first, second.vocab_size, names.second,
                             first.tokenizer_hash.substr(0, 8), second.tokenizer_hash.substr(0, 8)));
  return lines;
}

std::vector<std::string> source_differences(const DatasetManifest& first, const DatasetManifest& second,
                                            TwoNames names) {
  const PairedSources sources = pair_sources(first.sources, second.sources);
  std::vector<std::string> content, reading, moved;
  for (const auto& [one, other] : sources.same_place) {
    const bool both_read = !one->hash.empty() && !other->hash.empty();
    if (one->size_bytes != other->size_bytes || (both_read && one->hash != other->hash))
      content.push_back(other->path);
    else if (one->format != other->format || one->compression != other->compression)
      reading.push_back(fmt::format("{} ({} {}, {} {})", other->path, format_name(one->format), names.first,
                                    format_name(other->format), names.second));
  }
  for (const auto& [one, other] : sources.moved)
    moved.push_back(fmt::format("{} ({} {})", other->path, names.first, one->path));
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<std::string>& files, std::string_view what) {
    if (!files.empty()) lines.push_back(fmt::format("input: {} {}", join_first(files, kNamedFiles), what));
  };
  add(sources.only_second, fmt::format("only {}", names.second));
  add(sources.only_first, fmt::format("only {}", names.first));
  add(content, "with other content");
  add(reading, "in another format");
  if (first.rules.in_place || second.rules.in_place) add(moved, "at another place");
  if (lines.empty() && !same_order(first.sources, second.sources))
    lines.emplace_back("input: the same files in another order");
  return lines;
}

}  // namespace

std::string differences(const DatasetManifest& first, const DatasetManifest& second, TwoNames names) {
  std::vector<std::string> lines = option_differences(first, second, names);
  const std::vector<std::string> sources = source_differences(first, second, names);
  lines.insert(lines.end(), sources.begin(), sources.end());
  return join_first(lines, kNamedDifferences, "; ");
}

}  // namespace hearth::data
