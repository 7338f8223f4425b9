#include "data/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormatName = "hearth dataset";  // stored on disk: never change

constexpr const char* kChecksumLine = ",\n  \"checksum\": ";

// Paths may hold any byte; JSON holds UTF-8. Bytes above 127 that are no UTF-8 are replaced: paths are for people.
// The last line is the checksum of everything before it.
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
  return {{"path", source.path},
          {"real_path", source.real_path},
          {"size_bytes", source.size_bytes},
          {"xxh3_128", source.hash}};
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
  }
  return {{"name", split.name},
          {"documents", split.documents},
          {"tokens", split.tokens},
          {"text_bytes", split.text_bytes},
          {"shards", std::move(shards)}};
}

int64_t count_at(const Json& json, const char* key) {
  const auto value = json.at(key).get<int64_t>();
  if (value < 0) throw damaged(fmt::format("\"{}\" is {}", key, value));
  return value;
}

// A shard lies beside its manifest: a name that leads elsewhere is refused.
std::string shard_name(const Json& json) {
  auto name = json.at("file").get<std::string>();
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
    throw damaged(fmt::format("shard name \"{}\" leads out of the dataset's folder", name));
  return name;
}

SplitEntry parse_split(const Json& json) {
  SplitEntry split;
  split.name = json.at("name").get<std::string>();
  split.documents = count_at(json, "documents");
  split.tokens = count_at(json, "tokens");
  split.text_bytes = count_at(json, "text_bytes");
  int64_t tokens = 0, documents = 0;
  for (const Json& item : json.at("shards")) {
    ShardEntry& shard = split.shards.emplace_back();
    shard.file = shard_name(item);
    shard.size_bytes = count_at(item, "size_bytes");
    shard.tokens = count_at(item, "tokens");
    shard.documents = count_at(item, "documents");
    shard.identity = item.at("identity").get<std::string>();
    shard.checksum = item.at("header_checksum").get<std::string>();
    if (shard.tokens > shard.size_bytes || shard.documents > shard.size_bytes)
      throw damaged(fmt::format("shard {} counts more than its size can hold", shard.file));
    tokens += shard.tokens;
    documents += shard.documents;
  }
  if (tokens != split.tokens || documents != split.documents)
    throw damaged(fmt::format("the shards of split \"{}\" do not add up to its counts", split.name));
  return split;
}

Manifest parse_version_1(const Json& json) {
  Manifest m;
  m.identity = json.at("identity").get<std::string>();
  const Json& tokenizer = json.at("tokenizer");
  m.rules.tokenizer = tokenizer.at("name").get<std::string>();
  m.tokenizer_hash = tokenizer.at("hash").get<std::string>();
  m.vocab_size = count_at(tokenizer, "vocab_size");
  m.bos = tokenizer.at("bos").is_null() ? -1 : count_at(tokenizer, "bos");
  m.eos = tokenizer.at("eos").is_null() ? -1 : count_at(tokenizer, "eos");
  const Json& options = json.at("options");
  m.rules.bos = options.at("bos").get<bool>();
  m.rules.eos = options.at("eos").get<bool>();
  m.rules.validation = options.at("validation").get<double>();
  m.rules.document_bytes = count_at(options, "document_bytes");
  m.rules.shard_tokens = count_at(options, "shard_tokens");
  const Json& counts = json.at("counts");
  m.links_resolved = count_at(counts, "links_resolved");
  m.duplicates_dropped = count_at(counts, "duplicates_dropped");
  m.empty_dropped = count_at(counts, "empty_dropped");
  m.skipped = count_at(counts, "skipped");
  m.invalid_utf8_files = count_at(counts, "invalid_utf8_files");
  m.invalid_utf8_bytes = count_at(counts, "invalid_utf8_bytes");
  for (const Json& item : json.at("splits")) m.splits.push_back(parse_split(item));
  for (const Json& item : json.at("sources")) {
    m.sources.push_back({item.at("path").get<std::string>(), item.at("real_path").get<std::string>(),
                         count_at(item, "size_bytes"), item.at("xxh3_128").get<std::string>()});
  }
  return m;
}

}  // namespace

const SplitEntry* Manifest::find_split(std::string_view name) const {
  const auto found = std::find_if(splits.begin(), splits.end(), [&](const SplitEntry& s) { return s.name == name; });
  return found == splits.end() ? nullptr : &*found;
}

std::string manifest_text(const Manifest& m) {
  Json json = {{"format", kFormatName}, {"version", kManifestVersion}, {"identity", m.identity}};
  json["tokenizer"] = {{"name", m.rules.tokenizer},
                       {"hash", m.tokenizer_hash},
                       {"vocab_size", m.vocab_size},
                       {"bos", m.bos < 0 ? Json() : Json(m.bos)},
                       {"eos", m.eos < 0 ? Json() : Json(m.eos)}};
  json["options"] = {{"bos", m.rules.bos},
                     {"eos", m.rules.eos},
                     {"validation", m.rules.validation},
                     {"document_bytes", m.rules.document_bytes},
                     {"shard_tokens", m.rules.shard_tokens}};
  json["counts"] = {{"links_resolved", m.links_resolved},         {"duplicates_dropped", m.duplicates_dropped},
                    {"empty_dropped", m.empty_dropped},           {"skipped", m.skipped},
                    {"invalid_utf8_files", m.invalid_utf8_files}, {"invalid_utf8_bytes", m.invalid_utf8_bytes}};
  json["splits"] = Json::array();
  for (const SplitEntry& split : m.splits) json["splits"].push_back(split_json(split));
  json["sources"] = Json::array();
  for (const SourceFile& source : m.sources) json["sources"].push_back(source_json(source));
  return dump(json);
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const char* rebuild = "restore the file from a copy, or build the dataset again";
  if (json.is_discarded()) throw damaged(fmt::format("{} is damaged", origin), "it is not JSON", rebuild);
  if (!json.is_object() || json.value("format", Json()) != kFormatName)
    throw user_error(fmt::format("{} is not the manifest of a Hearth dataset", origin),
                     fmt::format("it has no \"format\": \"{}\"", kFormatName),
                     "give a folder made by `hearth data build`");
  const Json version = json.value("version", Json());
  if (version != kManifestVersion)
    throw user_error(fmt::format("{} has version {}", origin, version.dump()),
                     fmt::format("this hearth reads version {}", kManifestVersion),
                     "build the dataset again, or use the hearth that wrote it");
  if (!checksum_is_good(text, json))
    throw damaged(fmt::format("{} is damaged", origin), "its checksum is wrong: it was changed after it was written",
                  rebuild);
  try {
    return parse_version_1(json);
  } catch (const Json::exception& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.what(), rebuild);
  } catch (const Error& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.message(), rebuild);
  }
}

Manifest read_manifest(const Path& folder) {
  const Path path = folder / kManifestName;
  if (!path_exists(path))
    throw user_error(fmt::format("{} holds no dataset", folder.string()), fmt::format("there is no {}", path.string()),
                     "give a folder made by `hearth data build`; if a build was interrupted, run it again");
  return parse_manifest(read_file(path), path.string());
}

}  // namespace hearth::data
