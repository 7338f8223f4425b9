// SPDX-License-Identifier: Apache-2.0
#include "hub/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/program.h"
#include "hub/manifest.h"

namespace hearth::hub {
namespace {

constexpr std::string_view kDatasets = "datasets/";
constexpr size_t kLongestPart = 96;  // the Hub's own limit

// Letters, digits and `also`. The text becomes a folder and a word of a command: no "..", no leading "-", "." or "/".
bool is_safe(std::string_view text, std::string_view also) {
  const auto is_plain = [&](unsigned char c) {
    return std::isalnum(c) != 0 || also.find(static_cast<char>(c)) != also.npos;
  };
  return std::all_of(text.begin(), text.end(), is_plain) && text.find_first_of("-./") != 0 &&
         text.find("..") == text.npos && !text.empty();
}

// One part of a repository's name.
bool is_part(std::string_view text) { return is_safe(text, "-_.") && text.size() <= kLongestPart; }

bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

}  // namespace

bool is_name(std::string_view text) { return text.starts_with(kPrefix); }

Name parse_name(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return user_error(fmt::format("\"{}\" is not a name of the Hub", text), std::string(why),
                      "write hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:datasets/ORG/NAME");
  };
  if (!is_name(text)) throw refuse("it does not begin with hf:");
  std::string_view rest = text.substr(kPrefix.size());
  Name name;
  if (rest.starts_with(kDatasets) && std::count(rest.begin(), std::find(rest.begin(), rest.end(), '@'), '/') == 2) {
    name.is_dataset = true;
    rest.remove_prefix(kDatasets.size());
  }
  const size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    name.revision = rest.substr(at + 1);
    if (!is_safe(name.revision, "-_./")) throw refuse("what follows @ is not a branch, a tag or a commit");
  }
  name.repository = rest.substr(0, at);
  if (!is_repository(name.repository)) throw refuse("there is no ORG/NAME in it");
  return name;
}

std::string format_name(const Name& name) {
  return fmt::format("{}{}{}{}{}", kPrefix, name.is_dataset ? kDatasets : "", name.repository,
                     name.revision.empty() ? "" : "@", name.revision);
}

std::string parse_repository(std::string_view text) {
  if (is_name(text)) text.remove_prefix(kPrefix.size());
  if (!is_repository(text))
    throw user_error(fmt::format("--to {} is not a repository of the Hub", text), {}, "write it as ORG/NAME");
  return std::string(text);
}

Path hub_folder() {
  if (const std::string own = environment_variable("HEARTH_HUB"); !own.empty()) return std::filesystem::absolute(own);
  if (const std::optional<Path> folder = user_cache("hub")) return *folder;
  throw user_error("there is no folder for fetched files", "neither HEARTH_HUB nor HOME is set", "set HEARTH_HUB");
}

Path folder_of(const Name& name) {
  std::string last = name.repository;
  if (!name.revision.empty()) {
    last += "@" + name.revision;
    std::replace(last.begin() + static_cast<ptrdiff_t>(name.repository.size()), last.end(), '/', '_');
  }
  return hub_folder() / (name.is_dataset ? "datasets" : "models") / last;
}

Path find_fetched(const std::string& text) {
  if (!is_name(text)) return text;
  const Name name = parse_name(text);
  Path folder = folder_of(name);
  const std::optional<FetchManifest> manifest = read_manifest(folder);
  if (manifest && manifest->is_checked) return folder;
  throw user_error(
      fmt::format("{} is not there", text),
      fmt::format("{} has {}", folder.string(), manifest ? "only a part of its files" : "no fetched files"),
      fmt::format("hearth fetch {}", text));
}

}  // namespace hearth::hub
