// SPDX-License-Identifier: Apache-2.0
#include "hub/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/disk_space.h"
#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"

namespace hearth::hub {
namespace {

constexpr const char* kClientFolder = ".cache/huggingface";  // the client's own records of a download
constexpr size_t kFilesNamed = 5;

bool has_size(const Path& path, int64_t bytes) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return !missing && static_cast<int64_t>(size) == bytes;
}

void check_folder(const FetchRequest& request, const std::optional<FetchManifest>& before) {
  const std::string folder = request.folder.string();
  if (path_exists(request.folder) && !std::filesystem::is_directory(request.folder))
    throw user_error(fmt::format("{} is a file", folder), {}, "give the name of a folder to --out");
  if (before && before->name != format_name(request.name))
    throw user_error(fmt::format("{} has the files of {}", folder, before->name), "two repositories would mix",
                     "give another folder to --out");
  if (before || !path_exists(request.folder) || path_exists(request.folder / kClientFolder)) return;
  if (!std::filesystem::is_empty(request.folder))
    throw user_error(fmt::format("{} is not empty", folder), "a download could overwrite its files",
                     "give another folder to --out");
}

std::vector<std::string> download_command(const FetchRequest& request, const FetchManifest& manifest) {
  std::vector<std::string> words = {"download",    request.name.repository,
                                    "--type",      request.name.is_dataset ? "dataset" : "model",
                                    "--revision",  manifest.commit,
                                    "--local-dir", request.folder.string(),
                                    "--format",    "quiet"};
  for (const std::string& pattern : request.include) words.insert(words.end(), {"--include", pattern});
  for (const std::string& pattern : request.exclude) words.insert(words.end(), {"--exclude", pattern});
  return words;
}

[[noreturn]] void refuse_wrong(const FetchRequest& request, const std::vector<std::string>& wrong, const char* fix) {
  throw damaged(
      fmt::format("{}: {} of {} differ from the Hub's hashes: {}", request.folder.string(),
                  counted(std::ssize(wrong), "file"), format_name(request.name), join_first(wrong, kFilesNamed)),
      "bytes changed on their way or on this disk", fix);
}

}  // namespace

Offer make_offer(const Client& client, const FetchRequest& request) {
  const std::optional<FetchManifest> before = read_manifest(request.folder);
  check_folder(request, before);
  const Repository found = look_up(client, request.name);
  Offer offer;
  offer.is_gated = found.is_gated;
  offer.manifest = {format_name(request.name),
                    found.commit,
                    found.licence,
                    request.include,
                    request.exclude,
                    select_files(found.files, request.include, request.exclude),
                    false};
  if (offer.manifest.files.empty())
    throw user_error(fmt::format("no file of {} is selected", offer.manifest.name),
                     fmt::format("it has {}", counted(std::ssize(found.files), "file")),
                     "correct --include and --exclude");
  offer.bytes = total_bytes(offer.manifest.files);
  for (const RemoteFile& file : offer.manifest.files) {
    if (!has_size(request.folder / file.path, file.size_bytes)) offer.bytes_left += file.size_bytes;
  }
  if (before && before->commit != found.commit) {
    std::set<std::string> now;
    for (const RemoteFile& file : found.files) now.insert(file.path);
    for (const RemoteFile& file : before->files) {
      if (!now.contains(file.path) && path_exists(request.folder / file.path)) offer.removed.push_back(file.path);
    }
  }
  require_disk_space(request.folder, offer.bytes_left, "the download",
                     "give --out on another disk, or --include for a part");
  return offer;
}

void download(const Client& client, const FetchRequest& request, const Offer& offer, FetchProgress& progress) {
  make_folders(request.folder);
  FetchManifest manifest = offer.manifest;
  write_manifest(request.folder, manifest);
  for (const std::string& path : offer.removed) remove_file(request.folder / path);
  auto next_look = std::chrono::steady_clock::now();
  client.transfer(download_command(request, manifest), manifest.name, [&] {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look) return;
    progress.bytes = std::min(folder_bytes(request.folder), offer.bytes);  // with those of unfinished downloads
    next_look = now + 10 * (std::chrono::steady_clock::now() - now);       // at most a tenth of the time
  });
  progress.bytes = 0;
  progress.checks = true;
  const Differences found = compare_files(request.folder, manifest.files, progress.bytes);
  for (const std::string& path : found.wrong) remove_file(request.folder / path);
  if (!found.wrong.empty())
    refuse_wrong(request, found.wrong, "run the command again: these files were removed and are downloaded again");
  if (!found.missing.empty())
    throw Error(ExitCode::kHardware,
                fmt::format("{} lacks {}", request.folder.string(), join_first(found.missing, kFilesNamed)),
                "the client of the Hub did not download them", "run the command again");
  manifest.is_checked = true;
  write_manifest(request.folder, manifest);
}

FetchManifest check_offline(const FetchRequest& request, FetchProgress& progress) {
  const std::string name = format_name(request.name);
  std::optional<FetchManifest> manifest = read_manifest(request.folder);
  const std::string fix = fmt::format("hearth fetch {}, with a network and without --offline", name);
  if (!manifest)
    throw user_error(fmt::format("{} was never fetched", name),
                     fmt::format("{} has no {}", request.folder.string(), kManifestFile), fix);
  check_folder(request, manifest);
  const std::vector<RemoteFile> files = select_files(manifest->files, request.include, request.exclude);
  if (files.empty())
    throw user_error(fmt::format("no file of {} is selected", name), "none that was fetched matches --include",
                     "correct --include and --exclude");
  progress.checks = true;
  const Differences found = compare_files(request.folder, files, progress.bytes);
  if (!found.missing.empty())
    throw user_error(fmt::format("{}: {} of {} files are missing: {}", request.folder.string(), found.missing.size(),
                                 files.size(), join_first(found.missing, kFilesNamed)),
                     {}, fix);
  if (!found.wrong.empty()) refuse_wrong(request, found.wrong, fix.c_str());
  manifest->files = files;
  return *manifest;
}

}  // namespace hearth::hub
