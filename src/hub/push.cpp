// SPDX-License-Identifier: Apache-2.0
#include "hub/push.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "hub/name.h"
#include "hub/repository.h"

namespace hearth::hub {
namespace {

// Whether there is such a repository, for this token.
std::optional<Repository> find_repository(const Client& client, const Name& name) {
  try {
    return look_up_head(client, name);
  } catch (const Error& error) {
    // A repository without a commit has no information either.
    if (error.code() == ExitCode::kUser && error.message().ends_with("is not on the Hub")) return std::nullopt;
    throw;
  }
}

// A repository keeps its other files.
void refuse_hiding(const Client& client, const Name& name, const PushRequest& upload) {
  if (upload.hiding.empty() || !find_repository(client, name)) return;
  for (const RemoteFile& file : look_up(client, name).files) {
    if (std::find(upload.hiding.begin(), upload.hiding.end(), file.path) == upload.hiding.end()) continue;
    throw user_error(fmt::format("{} has {}, and the upload would leave it there", format_name(name), file.path),
                     "transformers would load it in place of these weights, or add it to them",
                     "delete it on the repository's page first, or give another --to");
  }
}

}  // namespace

Arrived upload(const Client& client, const PushRequest& upload, std::atomic<int64_t>& done_bytes) {
  const Name name{false, upload.repository, ""};
  if (upload.is_private) {
    const std::optional<Repository> before = find_repository(client, name);
    if (before && !before->is_private)
      throw user_error(fmt::format("{} exists and is public", format_name(name)),
                       "--private makes a new repository private and changes no old one",
                       "make it private on its page, give another --to, or leave out --private");
  }
  refuse_hiding(client, name, upload);
  std::vector<std::string> words = {
      "upload", upload.repository, upload.folder.string(), ".", "--commit-message", upload.message, "--format",
      "quiet"};
  if (upload.is_private) words.emplace_back("--private");
  client.transfer(std::move(words), format_name(name), {});

  const Repository there = look_up(client, name);
  std::map<std::string, const RemoteFile*> remote;
  for (const RemoteFile& file : there.files) remote[file.path] = &file;
  std::vector<std::string> missing;
  std::vector<RemoteFile> arrived;
  for (const FileEntry& file : files_under(upload.folder)) {
    const auto found = remote.find(file.path.string());
    if (found == remote.end())
      missing.push_back(file.path.string());
    else
      arrived.push_back(*found->second);
  }
  const Differences differences = compare_files(upload.folder, arrived, done_bytes);
  missing.insert(missing.end(), differences.wrong.begin(), differences.wrong.end());
  if (!missing.empty())
    throw damaged(fmt::format("{} did not arrive as it was sent: {}", format_name(name), join(missing)),
                  "the Hub lacks these files or has other hashes for them",
                  "run the command again; if it stays, remove these files on the repository's page first");
  return {there.commit, static_cast<int64_t>(arrived.size()), total_bytes(arrived)};
}

}  // namespace hearth::hub
