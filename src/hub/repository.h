// SPDX-License-Identifier: Apache-2.0
// What the Hub says about a repository: its commit, its licence, and every file with its hash.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/client.h"
#include "hub/manifest.h"
#include "hub/name.h"

namespace hearth::hub {

struct Repository {
  std::string commit;   // 40 digits
  std::string licence;  // the Hub's identifier, such as "apache-2.0"; empty: the repository names none
  bool is_gated = false, is_private = false;
  std::vector<RemoteFile> files;
};

// Asks the Hub twice. Throws what Client::ask throws, and damaged() for an answer that cannot be true.
Repository look_up(const Client& client, const Name& name);
// The same without the list of files: one request.
Repository look_up_head(const Client& client, const Name& name);

// The two answers, as the client prints them in JSON. Both throw damaged() as above.
Repository parse_head(std::string_view text, const Name& name);
std::vector<RemoteFile> parse_listing(std::string_view text, const Name& name);

// Files that match a pattern of `include` (empty: all) and none of `exclude`. A pattern is the shell's, over the whole
// path; "*" also matches "/". `hf` selects the same.
std::vector<RemoteFile> select_files(const std::vector<RemoteFile>& files, const std::vector<std::string>& include,
                                     const std::vector<std::string>& exclude);

int64_t total_bytes(const std::vector<RemoteFile>& files);

}  // namespace hearth::hub
