// SPDX-License-Identifier: Apache-2.0
#include "hub/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"

namespace hearth::hub {
namespace {

using ManifestJson = nlohmann::ordered_json;

constexpr int64_t kManifestVersion = 1;  // stored on disk: never change; a new meaning gets a new number
constexpr int64_t kMostReaders = 4;      // files that are hashed at once

constexpr int64_t kMostFileBytes = int64_t{1} << 45;

// Another type is refused, too: a conversion of a large number with a point is undefined.
int64_t size_in(const ManifestJson& j) { return j.is_number_integer() ? j.get<int64_t>() : -1; }

RemoteFile parse_file(const ManifestJson& j, const std::string& from) {
  const bool is_lfs = j.contains("sha256");
  Digest digest{is_lfs ? DigestKind::kSha256 : DigestKind::kGitBlob,
                j.at(is_lfs ? "sha256" : "git_sha1").get<std::string>()};
  return parse_remote_file(j.at("path").get<std::string>(), size_in(j.at("size")), std::move(digest), from);
}

}  // namespace

std::string parse_path(const std::string& text, const std::string& from) {
  const Path path(text);
  const bool climbs = path.is_absolute() || std::any_of(path.begin(), path.end(), [](const Path& part) {
                        return part == ".." || part == "." || part.empty();
                      });
  const bool has_control = std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
  if (text.empty() || climbs || has_control)
    throw damaged(fmt::format("{} names the file \"{}\"", from, has_control ? "(control characters)" : text),
                  "a file's path must stay in its folder", "do not use this repository");
  return text;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

RemoteFile parse_remote_file(const std::string& path, int64_t size_bytes, Digest digest, const std::string& from) {
  std::string good_path = parse_path(path, from);
  const bool is_digest = is_hex(digest.hex, digest.kind == DigestKind::kSha256 ? 64 : 40);
  if (size_bytes < 0 || size_bytes > kMostFileBytes || !is_digest)
    throw damaged(fmt::format("{} cannot be read", from),
                  fmt::format("{} has the hash \"{}\" and {} bytes", good_path, digest.hex, size_bytes));
  return {std::move(good_path), size_bytes, std::move(digest)};
}

std::optional<FetchManifest> read_manifest(const Path& folder) {
  const Path path = folder / kManifestFile;
  if (!path_exists(path)) return std::nullopt;
  return parse_manifest(read_file(path), path.string());
}

FetchManifest parse_manifest(std::string_view text, const std::string& from) {
  constexpr const char* kFetchAgain = "remove it and fetch again; files that are there are not downloaded again";
  try {
    const ManifestJson j = ManifestJson::parse(text);
    if (!j.at("format_version").is_number_integer() || j.at("format_version").get<int64_t>() != kManifestVersion)
      throw user_error(fmt::format("{} is of another version of Hearth", from), {}, kFetchAgain);
    FetchManifest manifest{j.at("name"), j.at("commit"), j.at("licence"), j.at("include"), j.at("exclude"),
                           {},           j.at("checked")};
    for (const ManifestJson& file : j.at("files")) manifest.files.push_back(parse_file(file, from));
    return manifest;
  } catch (const ManifestJson::exception& error) {
    throw damaged(fmt::format("{} is damaged", from), error.what(), kFetchAgain);
  }
}

void write_manifest(const Path& folder, const FetchManifest& manifest) {
  ManifestJson j = {{"format_version", kManifestVersion}, {"name", manifest.name},
                    {"commit", manifest.commit},          {"licence", manifest.licence},
                    {"include", manifest.include},        {"exclude", manifest.exclude},
                    {"checked", manifest.is_checked},     {"files", ManifestJson::array()}};
  for (const RemoteFile& file : manifest.files) {
    const char* key = file.digest.kind == DigestKind::kSha256 ? "sha256" : "git_sha1";
    j["files"].push_back({{"path", file.path}, {"size", file.size_bytes}, {key, file.digest.hex}});
  }
  write_file_atomic(folder / kManifestFile, j.dump(1, ' ', false, ManifestJson::error_handler_t::replace) + "\n");
}

Differences compare_files(const Path& folder, const std::vector<RemoteFile>& files, std::atomic<int64_t>& done_bytes) {
  enum class Outcome : char { kGood, kMissing, kWrong };
  std::vector<Outcome> outcomes(files.size(), Outcome::kGood);
  const auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  for_each_index(static_cast<int64_t>(files.size()), std::min(cores, kMostReaders), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    const Path path = folder / files[i].path;
    std::error_code missing;
    const auto size = std::filesystem::file_size(path, missing);
    if (missing)
      outcomes[i] = Outcome::kMissing;
    else if (static_cast<int64_t>(size) != files[i].size_bytes ||
             digest_of_file(path, files[i].digest.kind, done_bytes) != files[i].digest)
      outcomes[i] = Outcome::kWrong;
  });
  Differences found;
  for (size_t i = 0; i < files.size(); ++i) {
    if (outcomes[i] == Outcome::kMissing) found.missing.push_back(files[i].path);
    if (outcomes[i] == Outcome::kWrong) found.wrong.push_back(files[i].path);
  }
  return found;
}

}  // namespace hearth::hub
