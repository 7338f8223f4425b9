// Sources into shards, in four steps:
//
//   discover   files, each once, with format and hash                              discover.h
//   units      what one thread reads: small files, a large one, a range of one     units.h
//   records    a unit's documents in order, after the rules for bad ones           records.h, holdout.h
//   groups     a run of documents becomes one shard a split                        build_group.h, group_queue.h
//
// Memory is bounded by the groups in flight, whatever the corpus. Restartable: shards that are finished and whole are
// kept, and the folder ends up with the same bytes whatever happened in between.
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

struct BuildOptions {
  Path out;
  std::vector<Path> paths;
  std::vector<Path> labels;  // of each path, which are token files then: one with the same sequences, see label_file.h
  std::vector<std::string> include;
  BuildRules rules;
  std::optional<bool> bos, eos;  // override rules.bos and eos; rules.bos is true anyway where the template adds BOS
  std::string bos_token,
      eos_token;                   // special tokens by name; empty: found out, see tokenizer/formats/document_tokens.h
  bool without_meta_cuts = false;  // tokenizer::OpenOptions
  int64_t threads = 1;
  int64_t part = 1, num_parts = 1;  // build this part of the corpus alone, counted from 1: see merge.h
  bool overwrite = false;           // a different dataset in `out` is removed
  // What a unit has at least (and rules.shard_tokens at least). It decides the shards' borders; tests make it small.
  int64_t unit_bytes = 64 << 20;
};

// For a progress bar in another thread.
struct BuildProgress {
  HashProgress hashing;
  std::atomic<int64_t> source_bytes_total{0}, source_bytes_done{0};  // as they lie on disk
  std::atomic<int64_t> text_bytes_done{0}, tokens_done{0};           // of shards that are written
};

struct BuildResult {
  Manifest manifest;
  int64_t shards_written = 0, shards_kept = 0;
  bool was_complete = false;  // everything was there; nothing was written
};

// Throws user_error for wrong input or an `out` that holds something else, damaged() for a source that cannot be read
// to its end, system_error for the disk's failures. The manifest is written last: without it, or after a failure, `out`
// is no dataset; the same call completes it.
BuildResult build_dataset(const BuildOptions& options, BuildProgress& progress);

}  // namespace hearth::data
