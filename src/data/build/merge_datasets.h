// SPDX-License-Identifier: Apache-2.0
// Merges several datasets into one, without reading their tokens.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct MergeResult {
  DatasetManifest manifest;
  int64_t shards_linked = 0, shards_copied = 0;
  bool was_complete = false;       // `out` was this dataset already; nothing was written
  std::vector<std::string> notes;  // differences from a single build, one line each
};

// Makes the folder `out`: the splits of `folders`, one after the other in the given order. A single build gives the
// same if its sources come in that order. Shards get a second name (a hard link) in `out`, or are copied to another
// file system, so the folders may be deleted afterwards. `out` appears as a whole: a temporary folder is renamed.
//
// Throws user_error if tokenizers, BOS and EOS rules or n_fixed differ, or if two datasets hold the same file read in
// the same way (a build would take it once). Also throws user_error if `out` exists; with `overwrite` a dataset there
// is replaced, unless it is one of `folders`. Throws damaged() for a shard that is missing, cut or not the one that its
// manifest names.
MergeResult merge_datasets(const std::vector<Path>& folders, const Path& out, bool overwrite);

}  // namespace hearth::data
