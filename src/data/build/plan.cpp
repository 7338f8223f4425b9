// SPDX-License-Identifier: Apache-2.0
#include "data/build/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "data/build/shards.h"
#include "data/shard/shard_format.h"

namespace hearth::data {
namespace {

// Raised whenever the same files and rules give other shards than before: then no old shard is kept. 2: a byte order
// mark is no part of a text.
constexpr int kBuildVersion = 2;

void check_rules(const BuildRules& rules, const tokenizer::Tokenizer& tokenizer) {
  if (!(rules.validation >= 0 && rules.validation < 1))
    throw user_error(fmt::format("--validation {} is not a share", rules.validation), "",
                     "give 0 or more and less than 1");
  if (rules.validation > 0 && !rules.split.empty())
    throw user_error("--validation and --split are given both",
                     "--validation holds documents out by content, --split by position", "give one of them");
  if (rules.shard_tokens < 1) throw user_error(fmt::format("--shard-tokens {} is too small", rules.shard_tokens));
  if (rules.bos && !tokenizer.bos())
    throw user_error(fmt::format("tokenizer \"{}\" has no BOS token", tokenizer.name()),
                     "neither its template nor its special tokens define it",
                     "name it with --bos-token TEXT, or give --bos none");
  if (rules.eos && !tokenizer.eos())
    throw user_error(fmt::format("tokenizer \"{}\" has no EOS token", tokenizer.name()),
                     "neither its template nor its special tokens define it",
                     "name it with --eos-token TEXT, or give --eos none");
  if (rules.n_fixed < 0 || rules.n_fixed > recordings::kMostNeurons)
    throw user_error(fmt::format("--n-fixed {} is outside its range", rules.n_fixed), "",
                     fmt::format("give 1 to {}, or 0 to keep those of each array", recordings::kMostNeurons));
  if (tokenizer.arrays() == nullptr && (rules.n_fixed > 0 || !rules.source_dataset.empty()))
    throw user_error(fmt::format("{} is only for arrays", rules.n_fixed > 0 ? "--n-fixed" : "--source-dataset"),
                     fmt::format("tokenizer \"{}\" is one of text", tokenizer.name()),
                     "remove it, or give --tokenizer spikes");
  check_read_rules(rules.read);
}

void check_part(const BuildOptions& options) {
  if (options.part < 1 || options.part > options.num_parts)
    throw user_error(fmt::format("--part {}/{} is not a part of a build", options.part, options.num_parts), "",
                     "give I/N with I from 1 to N");
}

// Each string with its length, so that no two rules give the same text. The format by name is left out: the format that
// each file is read as counts.
std::string read_rules_text(const ReadRules& rules) {
  const auto with_size = [](const std::string& text) { return fmt::format(" {}:{}", text.size(), text); };
  std::string text = fmt::format("{} {} {} {}", rules.document_bytes, rules.max_record_bytes, rules.join_first,
                                 rules.text_keys.size());
  for (const std::string& key : rules.text_keys) text += with_size(key);
  text += with_size(rules.text_join);
  if (rules.loss_keys.empty() && rules.labels_key.empty() && rules.weights_key.empty()) return text;
  text += fmt::format(" weights {}", rules.loss_keys.size());
  for (const std::string& key : rules.loss_keys) text += with_size(key);
  return text + with_size(rules.labels_key) + with_size(rules.weights_key);
}

std::string rules_text(const BuildPlan& plan, const BuildRules& rules) {
  const std::string of_arrays =
      plan.arrays ? fmt::format("arrays {} {}:{}\n", rules.n_fixed, rules.source_dataset.size(), rules.source_dataset)
                  : "";
  const std::string by_position = rules.split.empty() ? "" : fmt::format("split {}\n", rules.split);
  return fmt::format("build {} shard {} {}\ntokenizer {} {} {}\nvalidation {} {}\nrecords {} {} {} {}\ngroups {}\n{}{}",
                     kBuildVersion, kShardVersion, kDefaultBlockBytes, plan.tokenizer->content_hash(), rules.bos,
                     rules.eos, rules.validation, plan.holdout.moved ? to_hex(*plan.holdout.moved) : "none",
                     read_rules_text(rules.read), on_error_name(rules.on_error), rules.drop_empty, rules.dedup_exact,
                     rules.shard_tokens, of_arrays, by_position);
}

std::string portion_identity(const BuildPlan& plan, const Portion& portion, const std::string& rules, bool in_place) {
  StreamingHash hash;
  hash.update(rules);
  for (const PortionPiece& piece : portion.pieces) {
    const SourceFile& source = plan.found.sources[piece.source];
    hash.update(fmt::format("{} {} {} {} {} {} {}\n", piece.source, source.size_bytes, source.hash,
                            format_name(source.format), compression_name(source.compression), piece.range.begin,
                            piece.range.end));
    if (in_place) hash.update("in place " + source.real_path + "\n");
  }
  return hash.digest_128_hex();
}

std::vector<uint32_t> text_bytes_of_ids(const tokenizer::Tokenizer& tokenizer) {
  std::vector<uint32_t> bytes;
  if (tokenizer.kind() == "ids") return bytes;
  std::string text;
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    text.clear();
    tokenizer.decode(id, text);
    bytes.push_back(static_cast<uint32_t>(text.size()));
  }
  return bytes;
}

}  // namespace

std::string shard_name(size_t split, size_t portion, int64_t bundle) {
  return fmt::format("{}-{:06}-{:04}.shard", kSplitNames[split], portion, bundle);
}

int64_t BuildPlan::text_bytes_of(const Document& document) const {
  if (document.array != nullptr) return 0;
  if (!document.is_ids) return static_cast<int64_t>(document.data.size());
  if (id_text_bytes.empty()) return 0;
  int64_t bytes = 0;
  for (size_t at = 0; at < document.data.size(); at += sizeof(uint32_t)) {
    uint32_t id = 0;
    std::memcpy(&id, document.data.data() + at, sizeof id);
    bytes += id_text_bytes[id];
  }
  return bytes;
}

std::string BuildPlan::shard_identity(size_t split, size_t portion, int64_t bundle) const {
  return xxh3_128_hex(fmt::format("{} {} {}", portion_identities[portion], kSplitNames[split], bundle));
}

namespace {

struct ShardName {
  size_t split = 0, portion = 0;
  int64_t bundle = 0;
};

std::optional<ShardName> parse_shard_name(const std::string& name) {
  for (size_t split = 0; split < kNumSplits; ++split) {
    const std::string pattern = std::string(kSplitNames[split]) + "-%zu-%lld";
    size_t portion = 0;
    long long bundle = 0;
    if (std::sscanf(name.c_str(), pattern.c_str(), &portion, &bundle) != 2) continue;
    if (shard_name(split, portion, bundle) == name) return ShardName{split, portion, bundle};
  }
  return {};
}

}  // namespace

std::string planned_identity(const BuildPlan& plan, const std::string& name) {
  const auto shard = parse_shard_name(name);
  const bool ours = shard && shard->portion >= plan.first_portion && shard->portion < plan.end_portion;
  return ours ? plan.shard_identity(shard->split, shard->portion, shard->bundle) : "";
}

bool is_of_another_part(const BuildPlan& plan, const std::string& name) {
  const auto shard = parse_shard_name(name);
  return shard && shard->portion < plan.portions.size() &&
         (shard->portion < plan.first_portion || shard->portion >= plan.end_portion);
}

BuildPlan plan_build(const BuildOptions& options, std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                     HashProgress& progress) {
  const BuildRules& rules = options.rules;
  BuildPlan plan;
  plan.tokenizer = std::move(tokenizer);
  check_rules(rules, *plan.tokenizer);
  if (const auto* arrays = plan.tokenizer->arrays()) plan.arrays.emplace(*arrays, rules.n_fixed);
  check_part(options);
  plan.found = discover({options, options.out, rules.read}, progress);
  for (const SourceFile& source : plan.found.sources) check_weight_keys(source, rules.read);
  if (rules.in_place) check_in_place(plan.found.sources, rules);
  plan.portions =
      plan_portions(plan.found.sources, std::max(options.portion_bytes, rules.shard_tokens), rules.in_place);
  std::tie(plan.first_portion, plan.end_portion) = portions_of_part(plan.portions, options.part - 1, options.num_parts);
  const bool reads_all = rules.dedup_exact || !rules.split.empty();
  std::set<size_t> read;
  for (size_t u = reads_all ? 0 : plan.first_portion; u < (reads_all ? plan.portions.size() : plan.end_portion); ++u) {
    for (const PortionPiece& piece : plan.portions[u].pieces) read.insert(piece.source);
  }
  hash_sources(plan.found.sources, {read.begin(), read.end()}, options.threads, progress);
  if (std::ranges::any_of(plan.found.sources, [](const SourceFile& source) { return may_give_ids(source.format); }))
    plan.id_text_bytes = text_bytes_of_ids(*plan.tokenizer);
  plan.holdout = find_holdout(plan.found.sources, plan.portions, rules);

  std::string text = rules_text(plan, rules);
  if (reads_all) {  // a portion's documents and their splits depend on all other portions
    for (const SourceFile& source : plan.found.sources) text += source.hash + "\n";
  }
  StreamingHash hash;
  plan.portion_identities.resize(plan.portions.size());
  for (size_t u = plan.first_portion; u < plan.end_portion; ++u)
    hash.update(plan.portion_identities[u] = portion_identity(plan, plan.portions[u], text, rules.in_place));
  plan.identity = hash.digest_128_hex();
  return plan;
}

}  // namespace hearth::data
