// Several datasets become one, without reading their tokens.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct JoinResult {
  Manifest manifest;
  int64_t shards_linked = 0, shards_copied = 0;
  bool was_complete = false;       // `out` was this very dataset; nothing was written
  std::vector<std::string> notes;  // what a single build would have done otherwise, a line each
};

// Makes the folder `out`: the splits of `folders`, one after the other in the order given, as a single build makes them
// whose sources come in that order. Shards get a second name (a hard link) in `out`, or are copied where it lies on
// another file system; so the folders may be deleted afterwards. `out` is written beside itself and appears as a whole.
//
// Throws user_error where tokenizers, BOS and EOS rules or n_fixed differ, where two hold the same file read in the
// same way (a build would take it once), and where `out` is there: with `overwrite` a dataset there is replaced, unless
// it is one of `folders`. damaged() for a shard that is missing, cut or not the one that its manifest names.
JoinResult join_datasets(const std::vector<Path>& folders, const Path& out, bool overwrite);

}  // namespace hearth::data
