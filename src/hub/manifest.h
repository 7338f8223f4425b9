// SPDX-License-Identifier: Apache-2.0
// .hearth-fetch.json in a fetched folder: what was asked for, from which commit, and each file's size and hash. It is
// written before the first byte is downloaded, so that `hearth fetch --offline` knows what is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "hub/digest.h"

namespace hearth::hub {

inline constexpr const char* kManifestFile = ".hearth-fetch.json";

// A file of a repository. Its path never leaves the folder (parse_path).
struct RemoteFile {
  std::string path;
  int64_t size_bytes = 0;
  Digest digest;

  bool operator==(const RemoteFile&) const = default;
};

struct FetchManifest {
  std::string name;    // "hf:ORG/NAME@REVISION"
  std::string commit;  // 40 digits
  std::string licence;
  std::vector<std::string> include, exclude;  // shell patterns
  std::vector<RemoteFile> files;
  bool is_checked = false;  // every file was found to have its hash
};

// Throws damaged() for a path that is absolute, climbs out with "..", or has control characters.
std::string parse_path(const std::string& text, const std::string& from);

// Whether a text is a number of so many lower-case hexadecimal digits.
bool is_hex(std::string_view text, size_t digits);

// Throws damaged() for a path as above, a size that no file has, and a text that cannot be a hash. `from`: the text's
// place, for errors.
RemoteFile parse_remote_file(const std::string& path, int64_t size_bytes, Digest digest, const std::string& from);

// Empty if the folder has no manifest. Throws damaged() for one that is not of the format.
std::optional<FetchManifest> read_manifest(const Path& folder);
// Reads a manifest from its text. `from`: the file's name, for errors.
FetchManifest parse_manifest(std::string_view text, const std::string& from);
void write_manifest(const Path& folder, const FetchManifest& manifest);

// How the folder's files differ from the manifest's. Hashes are read on several threads.
struct Differences {
  std::vector<std::string> missing;  // paths
  std::vector<std::string> wrong;    // paths with another size or hash
};
Differences compare_files(const Path& folder, const std::vector<RemoteFile>& files, std::atomic<int64_t>& done_bytes);

}  // namespace hearth::hub
