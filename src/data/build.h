// Text into shards. Restartable: shards that are finished and whole are kept, and the folder ends up with the same
// bytes whatever happened in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/file.h"
#include "data/corpus.h"
#include "data/manifest.h"

namespace hearth::data {

struct BuildOptions {
  Path out;
  std::vector<Path> paths;
  std::vector<std::string> include;
  BuildRules rules;
  int64_t threads = 1;
  bool overwrite = false;  // a different dataset in `out` is removed
};

// For a progress bar in another thread.
struct BuildProgress {
  CorpusProgress corpus;
  std::atomic<int64_t> text_bytes_total{0}, text_bytes_done{0}, tokens_done{0};
};

struct BuildResult {
  Manifest manifest;
  int64_t shards_written = 0, shards_kept = 0;
  bool was_complete = false;  // everything was there; nothing was written
};

// Throws user_error for wrong input or an `out` that holds something else, system_error for the disk's failures. The
// manifest is written last: without it, or after a failure, `out` is no dataset; the same call completes it.
BuildResult build_dataset(const BuildOptions& options, BuildProgress& progress);

}  // namespace hearth::data
