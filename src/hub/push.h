// SPDX-License-Identifier: Apache-2.0
// Uploads a folder to a repository of the Hub and checks what arrived: `hearth push`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hub/client.h"
#include "hub/manifest.h"

namespace hearth::hub {

struct PushRequest {
  Path folder;             // all its files go to the root of the repository
  std::string repository;  // "ORG/NAME"; it is made if it is not there
  bool is_private = false;
  std::string message;  // the commit's message
  // Files that must not be in the repository: readers would use them instead of the uploaded files, or in addition.
  std::vector<std::string> hiding = {};
};

struct Arrived {
  std::string commit;
  int64_t files = 0, bytes = 0;
};

// Throws user_error, before anything is sent, if a private upload would go to a public repository, or if the repository
// has a file of `hiding`. Throws damaged() if
// the Hub's hashes of the uploaded files differ from those of the folder's files. `done_bytes` counts what is checked.
Arrived upload(const Client& client, const PushRequest& upload, std::atomic<int64_t>& done_bytes);

}  // namespace hearth::hub
