#include "data/build_plan.h"

#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard_format.h"

namespace hearth::data {
namespace {

// Raised whenever the same files and rules give other shards than before, so that none of the old ones is kept.
constexpr int kBuildVersion = 1;

void check_rules(const BuildRules& rules, const tokenizer::Tokenizer& tokenizer) {
  if (!(rules.validation >= 0 && rules.validation < 1))
    throw user_error(fmt::format("--validation {} is no share", rules.validation), "",
                     "give 0 or more and less than 1");
  if (rules.shard_tokens < 1) throw user_error(fmt::format("--shard-tokens {} is too small", rules.shard_tokens));
  if (rules.bos && !tokenizer.bos())
    throw user_error(fmt::format("tokenizer \"{}\" has no BOS token", tokenizer.name()),
                     "neither its template nor its special tokens tell which it is",
                     "name it with --bos-token TEXT, or give --bos none");
  if (rules.eos && !tokenizer.eos())
    throw user_error(fmt::format("tokenizer \"{}\" has no EOS token", tokenizer.name()),
                     "neither its template nor its special tokens tell which it is",
                     "name it with --eos-token TEXT, or give --eos none");
  check_read_rules(rules.read);
}

std::string rules_text(const BuildPlan& plan, const BuildRules& rules) {
  return fmt::format("build {} shard {} {}\ntokenizer {} {} {}\nvalidation {} {}\nrecords {} {} {} {}\ngroups {}\n",
                     kBuildVersion, kShardVersion, kDefaultBlockBytes, plan.tokenizer->content_hash(), rules.bos,
                     rules.eos, rules.validation, plan.holdout.moved ? to_hex(*plan.holdout.moved) : "none",
                     rules.read.format, rules.read.document_bytes, on_error_name(rules.on_error), rules.drop_empty,
                     rules.shard_tokens);
}

std::string unit_identity(const BuildPlan& plan, const Unit& unit, const std::string& rules) {
  StreamingHash hash;
  hash.update(rules);
  for (const UnitPiece& piece : unit.pieces) {
    const SourceFile& source = plan.found.sources[piece.source];
    hash.update(fmt::format("{} {} {} {} {} {}\n", piece.source, source.size_bytes, source.hash,
                            format_name(source.format), piece.range.begin, piece.range.end));
  }
  return hash.digest_128_hex();
}

}  // namespace

std::string shard_name(size_t split, size_t unit, int64_t group) {
  return fmt::format("{}-{:06}-{:04}.shard", kSplitNames[split], unit, group);
}

std::string BuildPlan::shard_identity(size_t split, size_t unit, int64_t group) const {
  return xxh3_128_hex(fmt::format("{} {} {}", unit_identities[unit], kSplitNames[split], group));
}

std::string planned_identity(const BuildPlan& plan, const std::string& name) {
  for (size_t split = 0; split < kNumSplits; ++split) {
    const std::string pattern = std::string(kSplitNames[split]) + "-%zu-%lld";
    size_t unit = 0;
    long long group = 0;
    if (std::sscanf(name.c_str(), pattern.c_str(), &unit, &group) != 2) continue;
    if (unit < plan.unit_identities.size() && shard_name(split, unit, group) == name)
      return plan.shard_identity(split, unit, group);
  }
  return {};
}

BuildPlan plan_build(const BuildOptions& options, std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                     HashProgress& progress) {
  const BuildRules& rules = options.rules;
  BuildPlan plan;
  plan.tokenizer = std::move(tokenizer);
  check_rules(rules, *plan.tokenizer);
  plan.found = discover({options.paths, options.include, options.out, rules.read, options.threads}, progress);
  std::vector<size_t> all(plan.found.sources.size());
  std::iota(all.begin(), all.end(), size_t{0});
  hash_sources(plan.found.sources, all, options.threads, progress);
  plan.units = plan_units(plan.found.sources, rules.read, std::max(options.unit_bytes, rules.shard_tokens));
  plan.holdout = find_holdout(plan.found.sources, plan.units, rules);

  const std::string text = rules_text(plan, rules);
  StreamingHash hash;
  for (const Unit& unit : plan.units) hash.update(plan.unit_identities.emplace_back(unit_identity(plan, unit, text)));
  plan.identity = hash.digest_128_hex();
  return plan;
}

}  // namespace hearth::data
