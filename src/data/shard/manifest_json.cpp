// SPDX-License-Identifier: Apache-2.0
// Writes and reads the text of manifest.json.
#include "data/shard/manifest.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard/shard_format.h"
#include "recordings/array_stream.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormatName = "hearth dataset";  // stored on disk: never change

constexpr const char* kChecksumLine = ",\n  \"checksum\": ";

// Paths may hold any byte; JSON holds UTF-8. Bytes that are not UTF-8 are replaced: paths are for people. The last line
// is the checksum of everything before it.
std::string dump(const Json& json) {
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  const std::string checksum = to_hex64(xxh3_64(text));
  return text + kChecksumLine + "\"" + checksum + "\"\n}\n";
}

bool checksum_is_good(std::string_view text, const Json& json) {
  const size_t end = text.rfind(kChecksumLine);
  return end != std::string_view::npos && json.value("checksum", Json()) == to_hex64(xxh3_64(text.substr(0, end)));
}

Json source_json(const SourceFile& source) {
  Json json = {{"path", source.path},
               {"real_path", source.real_path},
               {"size_bytes", source.size_bytes},
               {"xxh3_128", source.hash},
               {"format", format_name(source.format)},
               {"compression", compression_name(source.compression)}};
  if (!source.label_file.empty()) json["label_file"] = source.label_file;
  return json;
}

Json split_json(const SplitEntry& split) {
  Json shards = Json::array();
  for (const ShardEntry& shard : split.shards) {
    shards.push_back({{"file", shard.file},
                      {"size_bytes", shard.size_bytes},
                      {"tokens", shard.tokens},
                      {"documents", shard.documents},
                      {"identity", shard.identity},
                      {"header_checksum", shard.checksum}});
    if (shard.first_source > 0) shards.back()["first_source"] = shard.first_source;
    if (shard.tokens_in >= 0) shards.back()["tokens_in"] = shard.tokens_in;
    if (!shard.weights) continue;
    shards.back()["counted_tokens"] = shard.weights->counted;
    if (!shard.weights->is_mask) shards.back()["weight_sum"] = shard.weights->sum;
  }
  return {{"name", split.name},       {"documents", split.documents},
          {"tokens", split.tokens},   {"text_bytes", split.text_bytes},
          {"content", split.content}, {"shards", std::move(shards)}};
}

int64_t count_at(const Json& json, const char* key) {
  const int64_t value = json.at(key).get_ref<const int64_t&>();  // get<int64_t>() also takes 1.5 and 1e300
  if (value < 0) throw damaged(fmt::format("\"{}\" is {}", key, value));
  return value;
}

// A shard is in its manifest's folder: a name that leads elsewhere is refused.
std::string shard_name(const Json& json) {
  auto name = json.at("file").get<std::string>();
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
    throw damaged(fmt::format("shard name \"{}\" leads out of the dataset's folder", name));
  return name;
}

// Whether a shard of `size_bytes` can hold `tokens`. An array of one neuron gets n_fixed tokens and a BOS for every
// bin.
bool can_hold(int64_t size_bytes, int64_t tokens, const BuildRules& rules) {
  const int64_t per_byte = recordings::is_name_of_arrays(rules.tokenizer) ? std::max<int64_t>(rules.n_fixed, 1) + 1 : 1;
  return tokens / per_byte <= size_bytes;
}

// The sum of a mask is the number of tokens that count.
std::optional<WeightTotals> parse_weights(const Json& json, int64_t tokens) {
  if (!json.contains("counted_tokens")) return {};
  WeightTotals weights;
  weights.counted = count_at(json, "counted_tokens");
  weights.is_mask = !json.contains("weight_sum");
  weights.sum = weights.is_mask ? static_cast<double>(weights.counted) : json.at("weight_sum").get<double>();
  if (weights.counted > tokens || !(weights.sum >= 0) || !std::isfinite(weights.sum))
    throw damaged("a shard's weights are invalid");
  return weights;
}

// Most bytes that can hold the shard's tokens.
int64_t room_of(const ShardEntry& shard, const std::vector<SourceFile>& sources) {
  const auto count = static_cast<int64_t>(sources.size());
  if (shard.first_source > count || shard.tokens_in >= count)
    throw damaged(fmt::format("shard {} refers to a missing source", shard.file));
  if (shard.tokens_in < 0) return shard.size_bytes;
  return sources[static_cast<size_t>(shard.tokens_in)].size_bytes;
}

SplitEntry parse_split(const Json& json, const BuildRules& rules, const std::vector<SourceFile>& sources) {
  SplitEntry split;
  split.name = json.at("name").get<std::string>();
  split.documents = count_at(json, "documents");
  split.tokens = count_at(json, "tokens");
  split.text_bytes = count_at(json, "text_bytes");
  split.content = json.value("content", "");
  int64_t tokens = 0, documents = 0;
  bool adds_up = true;
  for (const Json& item : json.at("shards")) {
    ShardEntry& shard = split.shards.emplace_back();
    shard.file = shard_name(item);
    shard.size_bytes = count_at(item, "size_bytes");
    shard.tokens = count_at(item, "tokens");
    shard.documents = count_at(item, "documents");
    shard.identity = item.at("identity").get<std::string>();
    shard.checksum = item.at("header_checksum").get<std::string>();
    if (item.contains("first_source")) shard.first_source = count_at(item, "first_source");
    if (item.contains("tokens_in")) shard.tokens_in = count_at(item, "tokens_in");
    shard.weights = parse_weights(item, shard.tokens);
    if (!can_hold(room_of(shard, sources), shard.tokens, rules) || shard.documents > shard.size_bytes)
      throw damaged(fmt::format("shard {} claims more tokens or documents than its size can hold", shard.file));
    adds_up = adds_up && !__builtin_add_overflow(tokens, shard.tokens, &tokens) &&
              !__builtin_add_overflow(documents, shard.documents, &documents);
  }
  if (!adds_up || tokens != split.tokens || documents != split.documents)
    throw damaged(fmt::format("the shards of split \"{}\" do not add up to its counts", split.name));
  return split;
}

// Newer keys have a default: the rule of earlier builds.
BuildRules parse_rules(const Json& json) {
  BuildRules rules;
  rules.bos = json.at("bos").get<bool>();
  rules.eos = json.at("eos").get<bool>();
  rules.validation = json.at("validation").get<double>();
  rules.split = json.value("split", "");
  rules.read.document_bytes = count_at(json, "document_bytes");
  rules.shard_tokens = count_at(json, "shard_tokens");
  rules.read.format = json.value("format", "");
  rules.read.dialect = json.value("dialect", "");
  rules.read.text_keys = json.value("text_keys", rules.read.text_keys);
  rules.read.text_join = json.value("text_join", rules.read.text_join);
  rules.read.join_first = json.value("join_first", false);
  rules.read.max_record_bytes = json.value("max_record_bytes", rules.read.max_record_bytes);
  rules.on_error = parse_on_error(json.value("on_error", "stop"));
  rules.drop_empty = json.value("drop_empty", false);
  rules.dedup_exact = json.value("dedup_exact", false);
  rules.in_place = json.value("in_place", false);
  rules.n_fixed = json.contains("n_fixed") ? count_at(json, "n_fixed") : 0;
  if (rules.n_fixed > recordings::kMostNeurons) throw damaged(fmt::format("\"n_fixed\" is {}", rules.n_fixed));
  rules.source_dataset = json.value("source_dataset", "");
  rules.read.loss_keys = json.value("loss_keys", rules.read.loss_keys);
  rules.read.labels_key = json.value("labels_key", "");
  rules.read.weights_key = json.value("weights_key", "");
  return rules;
}

RecordCounts parse_record_counts(const Json& json) {
  RecordCounts counts;
  // Before records were counted, a file was a document.
  counts.invalid_utf8_documents =
      count_at(json, json.contains("invalid_utf8_files") ? "invalid_utf8_files" : "invalid_utf8_documents");
  counts.invalid_utf8_bytes = count_at(json, "invalid_utf8_bytes");
  if (!json.contains("records")) return counts;
  const Json& records = json.at("records");
  counts.empty_dropped = count_at(records, "empty_dropped");
  counts.duplicates_dropped = count_at(records, "duplicates_dropped");
  counts.repaired = count_at(records, "repaired");
  if (records.contains("other_source_dataset")) counts.other_source_dataset = count_at(records, "other_source_dataset");
  for (int i = 1; i < kNumProblems; ++i)
    counts.skipped[static_cast<size_t>(i)] =
        count_at(records.at("skipped"), std::string(problem_name(static_cast<RecordProblem>(i))).c_str());
  return counts;
}

SourceFile parse_source(const Json& json) {
  return {json.at("path").get<std::string>(),
          json.at("real_path").get<std::string>(),
          count_at(json, "size_bytes"),
          json.at("xxh3_128").get<std::string>(),
          parse_format(json.value("format", "text")),
          parse_compression(json.value("compression", "none")),
          0,
          nullptr,
          json.value("label_file", "")};
}

BuildPart parse_part(const Json& json) {
  BuildPart part;
  part.index = count_at(json, "index");
  part.count = count_at(json, "count");
  // On disk portions are called units: never change.
  part.first_portion = count_at(json, "first_unit");
  part.portions = json.at("units").get<std::vector<std::string>>();
  if (part.index < 1 || part.index > part.count) throw damaged(fmt::format("part {} of {}", part.index, part.count));
  return part;
}

DatasetManifest parse_json(const Json& json) {
  DatasetManifest m;
  m.identity = json.at("identity").get<std::string>();
  m.build = json.value("build", "");
  m.rules = parse_rules(json.at("options"));
  const Json& tokenizer = json.at("tokenizer");
  m.rules.tokenizer = tokenizer.at("name").get<std::string>();
  m.tokenizer_hash = tokenizer.at("hash").get<std::string>();
  m.vocab_size = m.rules.read.vocab_size = count_at(tokenizer, "vocab_size");
  m.bos = tokenizer.at("bos").is_null() ? -1 : count_at(tokenizer, "bos");
  m.eos = tokenizer.at("eos").is_null() ? -1 : count_at(tokenizer, "eos");
  const Json& counts = json.at("counts");
  m.links_resolved = count_at(counts, "links_resolved");
  m.duplicates_dropped = count_at(counts, "duplicates_dropped");
  m.empty_dropped = count_at(counts, "empty_dropped");
  m.skipped = count_at(counts, "skipped");
  if (counts.contains("left_out")) m.left_out = count_at(counts, "left_out");
  m.records = parse_record_counts(counts);
  m.special_text_seen = counts.value("special_text_seen", int64_t{0});
  m.invalid_bytes_replaced = counts.value("invalid_bytes_replaced", int64_t{0});
  if (json.contains("part")) m.part = parse_part(json.at("part"));
  for (const Json& item : json.value("joined", Json::array())) {
    MergedDataset& merged = m.merged.emplace_back();
    merged = {item.at("identity").get<std::string>(), item.at("build").get<std::string>(), count_at(item, "sources"),
              parse_rules(item.at("options"))};
    merged.rules.tokenizer = m.rules.tokenizer;
    merged.rules.read.vocab_size = m.vocab_size;
  }
  for (const Json& item : json.at("sources")) m.sources.push_back(parse_source(item));
  for (const Json& item : json.at("splits")) m.splits.push_back(parse_split(item, m.rules, m.sources));
  return m;
}

Json rules_json(const BuildRules& rules) {
  Json json = {{"bos", rules.bos},
               {"eos", rules.eos},
               {"validation", rules.validation},
               {"split", rules.split},
               {"format", rules.read.format},
               {"dialect", rules.read.dialect},
               {"document_bytes", rules.read.document_bytes},
               {"text_keys", rules.read.text_keys},
               {"text_join", rules.read.text_join},
               {"join_first", rules.read.join_first},
               {"max_record_bytes", rules.read.max_record_bytes},
               {"on_error", on_error_name(rules.on_error)},
               {"drop_empty", rules.drop_empty},
               {"dedup_exact", rules.dedup_exact},
               {"in_place", rules.in_place},
               {"n_fixed", rules.n_fixed},
               {"source_dataset", rules.source_dataset},
               {"shard_tokens", rules.shard_tokens}};
  // A manifest without weights has the same bytes as before weights existed.
  if (!rules.read.loss_keys.empty()) json["loss_keys"] = rules.read.loss_keys;
  if (!rules.read.labels_key.empty()) json["labels_key"] = rules.read.labels_key;
  if (!rules.read.weights_key.empty()) json["weights_key"] = rules.read.weights_key;
  return json;
}

Json counts_json(const DatasetManifest& m) {
  Json skipped = Json::object();
  for (int i = 1; i < kNumProblems; ++i)
    skipped[std::string(problem_name(static_cast<RecordProblem>(i)))] = m.records.skipped[static_cast<size_t>(i)];
  Json json = {{"links_resolved", m.links_resolved},
               {"duplicates_dropped", m.duplicates_dropped},
               {"empty_dropped", m.empty_dropped},
               {"skipped", m.skipped},
               {"invalid_utf8_documents", m.records.invalid_utf8_documents},
               {"invalid_utf8_bytes", m.records.invalid_utf8_bytes},
               {"special_text_seen", m.special_text_seen},
               {"invalid_bytes_replaced", m.invalid_bytes_replaced},
               {"records",
                {{"empty_dropped", m.records.empty_dropped},
                 {"duplicates_dropped", m.records.duplicates_dropped},
                 {"other_source_dataset", m.records.other_source_dataset},
                 {"repaired", m.records.repaired},
                 {"skipped", std::move(skipped)}}}};
  if (m.left_out > 0) json["left_out"] = m.left_out;
  return json;
}

// The version makes an older hearth refuse the manifest, instead of finding damage or ignoring fields.
int64_t version_of(const DatasetManifest& m) {
  const auto weighs = [](const SplitEntry& split) { return split.weights().has_value(); };
  if (std::ranges::any_of(m.splits, weighs)) return kWeightsManifestVersion;
  if (!m.merged.empty()) return kWiderManifestVersion;
  const auto is_in_place = [](const ShardEntry* shard) { return shard->tokens_in >= 0; };
  return std::ranges::any_of(m.shards(), is_in_place) ? kWiderManifestVersion : kManifestVersion;
}

}  // namespace

std::string manifest_text(const DatasetManifest& m) {
  Json json = {{"format", kFormatName}, {"version", version_of(m)}, {"identity", m.identity}, {"build", m.build}};
  json["tokenizer"] = {{"name", m.rules.tokenizer},
                       {"hash", m.tokenizer_hash},
                       {"vocab_size", m.vocab_size},
                       {"bos", m.bos < 0 ? Json() : Json(m.bos)},
                       {"eos", m.eos < 0 ? Json() : Json(m.eos)}};
  json["options"] = rules_json(m.rules);
  json["counts"] = counts_json(m);
  if (m.part.count > 1)
    json["part"] = {{"index", m.part.index},
                    {"count", m.part.count},
                    {"first_unit", m.part.first_portion},
                    {"units", m.part.portions}};
  for (const MergedDataset& merged : m.merged)
    json["joined"].push_back({{"identity", merged.identity},
                              {"build", merged.build},
                              {"sources", merged.num_sources},
                              {"options", rules_json(merged.rules)}});
  json["splits"] = Json::array();
  for (const SplitEntry& split : m.splits) json["splits"].push_back(split_json(split));
  json["sources"] = Json::array();
  for (const SourceFile& source : m.sources) json["sources"].push_back(source_json(source));
  return dump(json);
}

DatasetManifest parse_manifest(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw damaged(fmt::format("{} is damaged", origin), "it is not JSON", kRebuild);
  if (!json.is_object() || json.value("format", Json()) != kFormatName)
    throw user_error(fmt::format("{} is not the manifest of a Hearth dataset", origin),
                     fmt::format("it has no \"format\": \"{}\"", kFormatName),
                     "give a folder made by `hearth data build`");
  const Json version = json.value("version", Json());
  if (version != kManifestVersion && version != kWiderManifestVersion && version != kWeightsManifestVersion)
    throw user_error(fmt::format("{} has version {}", origin, version.dump()),
                     fmt::format("this hearth reads versions {} to {}", kManifestVersion, kWeightsManifestVersion),
                     "build the dataset again, or use the hearth that wrote it");
  if (!checksum_is_good(text, json))
    throw damaged(fmt::format("{} is damaged", origin), "its checksum is wrong: it was changed after it was written",
                  kRebuild);
  try {
    return parse_json(json);
  } catch (const Json::exception& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.what(), kRebuild);
  } catch (const Error& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.message(), kRebuild);
  }
}

DatasetManifest read_manifest(const Path& folder) {
  const Path path = folder / kManifestName;
  if (!path_exists(path))
    throw user_error(fmt::format("{} holds no dataset", folder.string()), fmt::format("there is no {}", path.string()),
                     "give a folder made by `hearth data build`; if a build was interrupted, run it again");
  return parse_manifest(read_file(path), path.string());
}

}  // namespace hearth::data
