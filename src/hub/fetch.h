// SPDX-License-Identifier: Apache-2.0
// Downloads a repository of the Hub, or a part of it, and checks every file against the Hub's hashes: `hearth fetch`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hub/client.h"
#include "hub/manifest.h"
#include "hub/name.h"
#include "hub/repository.h"

namespace hearth::hub {

struct FetchRequest {
  Name name;
  Path folder;
  std::vector<std::string> include, exclude;  // shell patterns; see select_files
};

// What a download would do. Nothing is written yet.
struct Offer {
  FetchManifest manifest;
  bool is_gated = false;
  int64_t bytes = 0;                 // of all selected files
  int64_t bytes_left = 0;            // of selected files that are missing or have a wrong size
  std::vector<std::string> removed;  // files of an earlier commit that the repository no longer has
};

struct FetchProgress {
  std::atomic<int64_t> bytes = 0;  // bytes downloaded, or bytes checked
  std::atomic<bool> checks = false;
};

// Asks the Hub. Throws user_error if the folder holds something else or no file is selected, and an Error with
// kHardware if the disk is too small.
Offer make_offer(const Client& client, const FetchRequest& request);

// Downloads and checks. After an interruption the next call continues. A file with a wrong hash is removed, so that the
// next call downloads it again, and damaged() names it.
void download(const Client& client, const FetchRequest& request, const Offer& offer, FetchProgress& progress);

// Checks the files in the folder without the network. Throws user_error that names missing files, and damaged() for
// wrong files.
FetchManifest check_offline(const FetchRequest& request, FetchProgress& progress);

}  // namespace hearth::hub
