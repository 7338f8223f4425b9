// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/text.h"

namespace hearth::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The file begins with these bytes, then the 16 digits of its own checksum: the XXH3-64 of the whole file with these
// digits set to zeros. The place is fixed: damage cannot hide it.
constexpr std::string_view kChecksumPrefix = "{\n\"checksum\": \"";
constexpr size_t kDigits = 16;

std::string self_checksum(std::string_view text) {
  StreamingHash hash;
  hash.update(kChecksumPrefix);
  hash.update(std::string(kDigits, '0'));
  hash.update(text.substr(kChecksumPrefix.size() + kDigits));
  return to_hex64(hash.digest_64());
}

// JSON has no NaN and no infinity.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string& text = value.get_ref<const std::string&>();
  return text == "nan" ? std::nan("") : text == "inf" ? INFINITY : -INFINITY;
}

// Bytes that are not UTF-8 are replaced.
std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Keys of hearth.json that are not states of other folders.
constexpr std::string_view kOwnKeys =
    "checksum format_version step tokens_seen tokenizer tokenizer_hash bos eos document_bos dataset_hash "
    "optimizer_start token_weights_hash n_fixed ranks parent code_version libtorch_version host created metrics "
    "config metadata items";
bool is_own_key(std::string_view name) {
  static const std::vector<std::string> keys = split(kOwnKeys, ' ');
  return std::ranges::find(keys, name) != keys.end();
}

Json header(const Manifest& m) {
  Json metrics = Json::object();
  for (const auto& [name, value] : m.metrics) metrics[name] = number(value);
  Json j = Json::object();
  j["format_version"] = kFormatVersion;
  j["step"] = m.step;
  j["tokens_seen"] = m.tokens_seen;
  if (const auto data = m.states.find("data"); data != m.states.end()) j["data"] = Json::parse(data->second);
  j["tokenizer"] = m.tokenizer;
  j["tokenizer_hash"] = m.tokenizer_hash;
  j["bos"] = m.bos < 0 ? Json() : Json(m.bos);
  j["eos"] = m.eos < 0 ? Json() : Json(m.eos);
  j["document_bos"] = m.document_bos;
  j["dataset_hash"] = m.dataset_hash;
  if (m.optimizer_start != 0) j["optimizer_start"] = m.optimizer_start;
  if (!m.token_weights_hash.empty()) j["token_weights_hash"] = m.token_weights_hash;
  if (m.n_fixed > 0) j["n_fixed"] = m.n_fixed;
  for (const auto& [name, text] : m.states) {
    HEARTH_CHECK(!is_own_key(name), "a state of a checkpoint cannot be named \"{}\"", name);
    if (name != "data") j[name] = Json::parse(text);
  }
  j["ranks"] = m.ranks;
  j["parent"] = m.parent;
  j["code_version"] = m.code_version;
  j["libtorch_version"] = m.libtorch_version;
  j["host"] = m.host;
  j["created"] = m.created;
  j["metrics"] = std::move(metrics);
  j["config"] = m.config_toml;
  j["metadata"] = {{"length", m.metadata_length}, {"checksum", to_hex64(m.metadata_checksum)}};
  return j;
}

// get_ref, here and below: get<int64_t>() would accept 1.5 and 1e300.
std::vector<int64_t> integers(const Json& list) {
  std::vector<int64_t> found;
  for (const Json& value : list) found.push_back(value.get_ref<const int64_t&>());
  return found;
}

formats::Item parse_item(const Json& j) {
  formats::Item item;
  item.name = j.at("name").get<std::string>();
  item.box.offsets = integers(j.at("offsets"));
  item.box.sizes = integers(j.at("sizes"));
  item.file = j.at("file").get<std::string>();
  item.offset = j.at("offset").get_ref<const int64_t&>();
  item.length = j.at("length").get_ref<const int64_t&>();
  item.checksum = from_hex64(j.at("checksum").get<std::string>());
  return item;
}

Manifest parse_fields(const Json& j) {
  Manifest m;
  m.step = j.at("step").get_ref<const int64_t&>();
  m.tokens_seen = j.at("tokens_seen").get_ref<const int64_t&>();
  if (j.contains("optimizer_start")) m.optimizer_start = j.at("optimizer_start").get_ref<const int64_t&>();
  m.tokenizer = j.at("tokenizer").get<std::string>();
  m.tokenizer_hash = j.at("tokenizer_hash").get<std::string>();
  // Missing in the oldest checkpoints: "bytes" was the only tokenizer, and knows its ids.
  const auto id = [&](const char* key) {
    return !j.contains(key) || j.at(key).is_null() ? -1 : j.at(key).get<int64_t>();
  };
  m.bos = id("bos");
  m.eos = id("eos");
  m.document_bos = j.value("document_bos", false);
  m.dataset_hash = j.at("dataset_hash").get<std::string>();
  m.token_weights_hash = j.value("token_weights_hash", "");
  m.n_fixed = j.value("n_fixed", int64_t{0});
  for (const auto& [name, value] : j.items()) {
    if (value.is_object() && !is_own_key(name)) m.states[name] = dump(value);
  }
  m.ranks = j.at("ranks").get_ref<const int64_t&>();
  m.parent = j.at("parent").get<std::string>();
  m.code_version = j.at("code_version").get<std::string>();
  m.libtorch_version = j.at("libtorch_version").get<std::string>();
  m.host = j.at("host").get<std::string>();
  m.created = j.at("created").get<std::string>();
  for (const auto& [name, value] : j.at("metrics").items()) m.metrics[name] = number(value);
  m.config_toml = j.at("config").get<std::string>();
  m.metadata_length = j.at("metadata").at("length").get_ref<const int64_t&>();
  m.metadata_checksum = from_hex64(j.at("metadata").at("checksum").get<std::string>());
  return m;
}

// Parses the text without its items, which go to `items` one by one: thousands of ranks have millions of them, and as
// JSON they take ten times their memory.
Json parse_without_items(std::string_view text, std::vector<formats::Item>& items) {
  std::string key;                          // of the whole object
  bool has_items = false, is_known = true;  // is_known: the format, whose version comes first
  const auto take = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      key = parsed.get<std::string>();
      has_items |= key == "items";
    }
    if (depth == 1 && key == "format_version" && event == Json::parse_event_t::value)
      is_known = parsed == kFormatVersion;
    if (!is_known || key != "items" || depth != 2 || event != Json::parse_event_t::object_end) return true;
    items.push_back(parse_item(parsed));
    note_progress();
    return false;
  };
  Json j = Json::parse(text, take);
  if (is_known && (!has_items || !j.at("items").is_array() || !j.at("items").empty()))
    throw Json::type_error::create(302, "items is no array of objects", &j);
  return j;
}

}  // namespace

std::string Manifest::state(const std::string& name) const {
  const auto found = states.find(name);
  return found == states.end() ? "{}" : found->second;
}

void stamp(Manifest& manifest) {
  manifest.host = host_name();
  manifest.created = utc_now();
  manifest.code_version = version_text();
}

std::string format_manifest(const Manifest& manifest) {
  // One line per field and per item, for people and for diff.
  std::string text(kChecksumPrefix);
  text += std::string(kDigits, '0') + "\"";
  const Json fields = header(manifest);
  for (const auto& [key, value] : fields.items()) text += fmt::format(",\n\"{}\": {}", key, dump(value));
  text += ",\n\"items\": [";
  for (size_t i = 0; i < manifest.items.size(); ++i) {
    const formats::Item& item = manifest.items[i];
    const Json j = {{"name", item.name},
                    {"offsets", item.box.offsets},
                    {"sizes", item.box.sizes},
                    {"file", item.file},
                    {"offset", item.offset},
                    {"length", item.length},
                    {"checksum", to_hex64(item.checksum)}};
    text += (i == 0 ? "\n" : ",\n") + dump(j);
  }
  text += "\n]\n}\n";
  text.replace(kChecksumPrefix.size(), kDigits, self_checksum(text));
  return text;
}

Manifest parse_manifest(std::string_view text, const Path& path) {
  if (text.size() < kChecksumPrefix.size() + kDigits || !text.starts_with(kChecksumPrefix))
    throw damaged(fmt::format("{} is damaged", path.string()), "it does not begin with its checksum");
  const std::string found = self_checksum(text);
  const std::string_view expected = text.substr(kChecksumPrefix.size(), kDigits);
  if (found != expected)
    throw damaged(fmt::format("{} is damaged", path.string()),
                  fmt::format("checksum {}, expected {}", found, expected));
  try {
    std::vector<formats::Item> items;
    const Json j = parse_without_items(text, items);
    const int64_t version = j.at("format_version").get_ref<const int64_t&>();
    if (version != kFormatVersion)
      throw user_error(
          fmt::format("{}: checkpoint format {}, this program knows {}", path.string(), version, kFormatVersion),
          "it was written by another version of Hearth", "use that version");
    Manifest manifest = parse_fields(j);
    manifest.items = std::move(items);
    return manifest;
  } catch (const nlohmann::json::exception& e) {
    throw damaged(fmt::format("{} is damaged", path.string()), e.what());
  }
}

}  // namespace hearth::checkpoint
