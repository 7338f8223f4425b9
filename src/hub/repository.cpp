// SPDX-License-Identifier: Apache-2.0
#include "hub/repository.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace hearth::hub {
namespace {

using HubJson = nlohmann::json;

Error strange_answer(const Name& name, const std::string& why) {
  return damaged(fmt::format("the Hub's answer about {} cannot be read", format_name(name)), why,
                 "run the command again; if it stays, the client may be of another version: unset HEARTH_HF");
}

// A licence as people read it: an identifier, several, or the owner's own name for "other".
std::string licence_in(const HubJson& card) {
  if (!card.is_object()) return "";
  const auto texts = [&](const char* key) {
    std::vector<std::string> all;
    const HubJson value = card.value(key, HubJson());
    if (value.is_string()) all.push_back(value.get<std::string>());
    for (const HubJson& one : value.is_array() ? value : HubJson::array())
      if (one.is_string()) all.push_back(one.get<std::string>());
    return join(all);
  };
  const std::string licence = texts("license"), own = texts("license_name");
  return licence == "other" && !own.empty() ? own : licence;
}

RemoteFile parse_remote(const HubJson& j, const Name& name) {
  const bool is_lfs = j.contains("lfs") && j["lfs"].is_object();
  Digest digest = is_lfs ? Digest{DigestKind::kSha256, j["lfs"].at("sha256").get<std::string>()}
                         : Digest{DigestKind::kGitBlob, j.at("blob_id").get<std::string>()};
  const HubJson& size = j.at("size");
  return parse_remote_file(j.at("path").get<std::string>(), size.is_number_integer() ? size.get<int64_t>() : -1,
                           std::move(digest), fmt::format("the Hub's answer about {}", format_name(name)));
}

std::vector<std::string> command_for(const Name& name, const char* verb, const std::string& revision) {
  std::vector<std::string> words = {name.is_dataset ? "datasets" : "models", verb, name.repository};
  if (!revision.empty()) words.insert(words.end(), {"--revision", revision});
  return words;
}

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string pattern) {
    if (pattern.ends_with('/')) pattern += '*';
    return ::fnmatch(pattern.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
  });
}

}  // namespace

Repository parse_head(std::string_view text, const Name& name) {
  try {
    const HubJson j = HubJson::parse(text);
    Repository found;
    found.commit = j.at("sha").get<std::string>();
    found.licence = licence_in(j.value("card_data", HubJson()));
    const HubJson gated = j.value("gated", HubJson());
    found.is_gated = gated.is_string() || (gated.is_boolean() && gated.get<bool>());
    const HubJson hidden = j.value("private", HubJson());
    found.is_private = hidden.is_boolean() && hidden.get<bool>();
    if (!is_hex(found.commit, 40)) throw strange_answer(name, fmt::format("its commit is \"{}\"", found.commit));
    return found;
  } catch (const HubJson::exception& error) {
    throw strange_answer(name, error.what());
  }
}

std::vector<RemoteFile> parse_listing(std::string_view text, const Name& name) {
  std::vector<RemoteFile> files;
  if (text.starts_with("(empty)") || text.find_first_not_of(" \n") == std::string_view::npos) return files;
  std::set<std::string> paths;
  try {
    for (const HubJson& j : HubJson::parse(text)) {
      if (!j.contains("size")) continue;  // a folder
      files.push_back(parse_remote(j, name));
      if (!paths.insert(files.back().path).second)
        throw strange_answer(name, fmt::format("it lists {} twice", files.back().path));
    }
  } catch (const HubJson::exception& error) {
    throw strange_answer(name, error.what());
  }
  return files;
}

Repository look_up_head(const Client& client, const Name& name) {
  return parse_head(client.ask(command_for(name, "info", name.revision), format_name(name)), name);
}

Repository look_up(const Client& client, const Name& name) {
  Repository found = look_up_head(client, name);
  std::vector<std::string> words = command_for(name, "ls", found.commit);
  words.emplace_back("--recursive");
  found.files = parse_listing(client.ask(std::move(words), format_name(name)), name);
  return found;
}

std::vector<RemoteFile> select_files(const std::vector<RemoteFile>& files, const std::vector<std::string>& include,
                                     const std::vector<std::string>& exclude) {
  std::vector<RemoteFile> selected;
  for (const RemoteFile& file : files) {
    if ((include.empty() || matches_any(file.path, include)) && !matches_any(file.path, exclude))
      selected.push_back(file);
  }
  return selected;
}

int64_t total_bytes(const std::vector<RemoteFile>& files) {
  int64_t bytes = 0;
  for (const RemoteFile& file : files) bytes += file.size_bytes;
  return bytes;
}

}  // namespace hearth::hub
