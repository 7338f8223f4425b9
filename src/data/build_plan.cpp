#include "data/build_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard_format.h"

namespace hearth::data {
namespace {

void check_rules(const BuildRules& rules, const tokenizer::Tokenizer& tokenizer) {
  if (!(rules.validation >= 0 && rules.validation < 1))
    throw user_error(fmt::format("--validation {} is no share", rules.validation), "",
                     "give 0 or more and less than 1");
  if (rules.shard_tokens < 1) throw user_error(fmt::format("--shard-tokens {} is too small", rules.shard_tokens));
  if (rules.document_bytes < 0) throw user_error(fmt::format("--document-bytes {} is negative", rules.document_bytes));
  if (rules.bos && !tokenizer.bos())
    throw user_error(fmt::format("tokenizer \"{}\" has no BOS token", tokenizer.name()), "", "leave out --bos");
  if (rules.eos && !tokenizer.eos())
    throw user_error(fmt::format("tokenizer \"{}\" has no EOS token", tokenizer.name()), "", "give --no-eos");
}

std::vector<PlannedSplit> split_documents(const Corpus& corpus, double fraction) {
  std::vector<PlannedSplit> splits(2);
  splits[0].name = "train";
  splits[1].name = "validation";
  std::vector<const Document*>&train = splits[0].documents, &held_out = splits[1].documents;
  for (const Document& document : corpus.documents)
    (is_held_out(document.hash, fraction) ? held_out : train).push_back(&document);
  if (fraction == 0) {
    splits.pop_back();
    return splits;
  }
  if (corpus.documents.size() < 2)
    throw user_error("no document can be held out", "the text is one document, and a document is held out as a whole",
                     "cut long files into documents with --document-bytes 65536, or give --validation 0");
  // A small corpus can fall all on one side. Then the document whose hash is smallest changes it, whatever its place.
  std::vector<const Document*>*from = held_out.empty() ? &train : &held_out,
                    *to = held_out.empty() ? &held_out : &train;
  if (to->empty()) {
    const auto chosen = std::min_element(from->begin(), from->end(),
                                         [](const Document* a, const Document* b) { return a->hash < b->hash; });
    to->push_back(*chosen);
    from->erase(chosen);
  }
  return splits;
}

// What decides a shard's bytes.
std::string shard_identity(const PlannedShard& shard, const tokenizer::Tokenizer& tokenizer, const BuildRules& rules) {
  StreamingHash hash;
  hash.update(fmt::format("shard {} {} {} {} {}\n", kShardVersion, tokenizer.content_hash(), rules.bos, rules.eos,
                          kDefaultBlockBytes));
  for (const Document* document : shard.documents)
    hash.update(fmt::format("{} {} {} {}\n", document->hash, document->size_bytes, document->source, document->begin));
  return hash.digest_128_hex();
}

// Documents in order; a shard is closed when its text reaches rules.shard_tokens bytes.
void plan_shards(PlannedSplit& split, const tokenizer::Tokenizer& tokenizer, const BuildRules& rules) {
  int64_t bytes = rules.shard_tokens;  // the first document opens a shard
  for (const Document* document : split.documents) {
    if (bytes >= rules.shard_tokens) {
      const std::string file = fmt::format("{}-{:05}.shard", split.name, split.shards.size());
      split.shards.emplace_back().file = file;
      bytes = 0;
    }
    split.shards.back().documents.push_back(document);
    bytes += document->size_bytes;
  }
  for (PlannedShard& shard : split.shards) shard.identity = shard_identity(shard, tokenizer, rules);
}

std::string dataset_identity(const BuildPlan& plan, const BuildRules& rules) {
  StreamingHash hash;
  hash.update(fmt::format("dataset {} {} {}\n", plan.tokenizer->content_hash(), rules.bos, rules.eos));
  for (const PlannedSplit& split : plan.splits) {
    hash.update(fmt::format("split {}\n", split.name));
    for (const Document* document : split.documents)
      hash.update(fmt::format("{} {}\n", document->hash, document->size_bytes));
  }
  return hash.digest_128_hex();
}

}  // namespace

BuildPlan plan_build(const BuildOptions& options, CorpusProgress& progress) {
  BuildPlan plan;
  plan.tokenizer = tokenizer::open_tokenizer(options.rules.tokenizer);
  check_rules(options.rules, *plan.tokenizer);
  plan.corpus = find_corpus({options.paths, options.include, options.out, options.threads},
                            options.rules.document_bytes, progress);
  plan.splits = split_documents(plan.corpus, options.rules.validation);
  for (PlannedSplit& split : plan.splits) plan_shards(split, *plan.tokenizer, options.rules);
  plan.identity = dataset_identity(plan, options.rules);
  return plan;
}

}  // namespace hearth::data
