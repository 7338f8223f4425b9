// SPDX-License-Identifier: Apache-2.0
// Turns sources into shards, in four steps:
//
//   discover   files, each once, with format and hash                              discover.h
//   portions   the work of one thread: small files, a large one, a range of one    portions.h
//   records    a portion's documents in order, after the rules for bad ones        portion_reader.h, holdout.h
//   bundles    a run of documents becomes one shard per split                      bundle.h, bundle_queue.h
//
// The bundles in flight bound the memory, for any corpus. A build can be restarted: finished and whole shards are kept,
// and the folder ends up with the same bytes after any interruption.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"
#include "data/source/discover.h"

namespace hearth::data {

struct BuildOptions : SearchOptions {
  Path out;
  BuildRules rules;
  std::optional<bool> bos, eos;  // override rules.bos and eos; rules.bos is true anyway if the template adds BOS
  std::string bos_token,
      eos_token;                    // special tokens by name; empty: found, see tokenizer/formats/document_tokens.h
  bool without_meta_cuts = false;   // tokenizer::OpenOptions
  int64_t part = 1, num_parts = 1;  // build only this part of the corpus, counted from 1: see merge_parts.h
  bool overwrite = false;           // a different dataset in `out` is removed
  // Least size of a portion (and rules.shard_tokens at least). It decides the shards' borders; tests make it small.
  int64_t portion_bytes = 64 << 20;
};

// For a progress bar in another thread.
struct BuildProgress {
  HashProgress hashing;
  std::atomic<int64_t> source_bytes_total{0}, source_bytes_done{0};  // on disk
  std::atomic<int64_t> text_bytes_done{0}, tokens_done{0};           // of written shards
};

struct BuildResult {
  DatasetManifest manifest;
  int64_t shards_written = 0, shards_kept = 0;
  bool was_complete = false;  // `out` was this dataset already; nothing was written
  std::vector<LeftOut> left_out;
  std::vector<std::string> texts_beside, texts_about;  // see Discovery
};

// Throws user_error for wrong input or an `out` with other content, damaged() for a source that cannot be read to its
// end, system_error for disk errors. The manifest is written last. After a failure `out` is no dataset, and the same
// call completes it.
BuildResult build_dataset(const BuildOptions& options, BuildProgress& progress);

}  // namespace hearth::data
