// Uploads a folder to a repository of the Hub and checks what arrived: `hearth push`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hub/client.h"
#include "hub/record.h"

namespace hearth::hub {

struct Upload {
  Path folder;             // all its files go to the root of the repository
  std::string repository;  // "ORG/NAME"; it is made if it is not there
  bool is_private = false;
  std::string message;  // of the commit
};

struct Arrived {
  std::string commit;
  int64_t files = 0, bytes = 0;
};

// Throws user_error if a private upload would go to a public repository, before anything is sent. Throws damaged() if
// the Hub's hashes of the uploaded files differ from those of the folder's files. `done_bytes` counts what is checked.
Arrived upload(const Client& client, const Upload& upload, std::atomic<int64_t>& done_bytes);

}  // namespace hearth::hub
