// SPDX-License-Identifier: Apache-2.0
// What the Hub's client prints about a repository, and the manifest that `hearth fetch` keeps of it.
#include <algorithm>

#include "hub/repository.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kSha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

void require_in_folder(const std::vector<hub::RemoteFile>& files) {
  for (const hub::RemoteFile& file : files) {
    const Path path(file.path);
    require(!path.empty() && path.is_relative(), "a path that is not in the folder");
    require(std::none_of(path.begin(), path.end(), [](const Path& part) { return part == ".."; }), "a path climbs out");
    require(file.size_bytes >= 0, "a negative size");
    require(file.digest.hex.size() == (file.digest.kind == hub::DigestKind::kSha256 ? 64U : 40U), "a hash of a length");
  }
  hub::total_bytes(files);
  hub::select_files(files, {"*.json", "folder/"}, {"[a-"});
}

}  // namespace

void run(std::string_view input) {
  const hub::Name name{false, "org/model", ""};
  accepted([&] { require(hub::parse_head(input, name).commit.size() == 40, "a commit of another length"); });
  accepted([&] { require_in_folder(hub::parse_listing(input, name)); });
  accepted([&] {
    const hub::FetchManifest manifest = hub::parse_manifest(input, "fuzz");
    require_in_folder(manifest.files);
    hub::write_manifest(scratch(), manifest);
    require(hub::read_manifest(scratch())->files == manifest.files, "a manifest that changes when it is written");
  });
}

std::vector<std::string> seeds() {
  hub::FetchManifest manifest{"hf:org/model@main", kCommit, "apache-2.0", {"*.json"}, {"*.bin"}, {}, true};
  manifest.files.push_back({"config.json", 20, {hub::DigestKind::kGitBlob, kCommit}});
  manifest.files.push_back({"folder/model.safetensors", 2000, {hub::DigestKind::kSha256, kSha256}});
  hub::write_manifest(scratch(), manifest);
  const std::string commit = kCommit, sha256 = kSha256;
  return {read_file(scratch() / hub::kManifestFile),
          R"({"id": "org/model", "sha": ")" + commit +
              R"(", "private": false, "gated": "auto", "card_data": )"
              R"({"license": "other", "license_name": ["a", "b"]}})",
          R"([{"path": "folder", "tree_id": "x"}, {"path": "config.json", "size": 20, "blob_id": ")" + commit +
              R"(", "lfs": null}, {"path": "folder/model.safetensors", "size": 2000, "blob_id": ")" + commit +
              R"(", "lfs": {"size": 2000, "sha256": ")" + sha256 + R"("}}])",
          "(empty)"};
}

}  // namespace hearth::fuzz
