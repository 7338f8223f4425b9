// hearth.json: what a checkpoint is, where it came from, and a checksum for every byte beside it.
// The format is described in docs/checkpoint_format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/order/mixture.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

// Stored on disk: never change; a new meaning is a new number.
inline constexpr int64_t kFormatVersion = 1;
inline constexpr const char* kManifestFile = "hearth.json";
inline constexpr const char* kMetadataFile = ".metadata";

// What the trainer's guard remembers (train/guard.h).
struct Health {
  std::vector<double> losses, grad_norms;  // of the last applied steps, the oldest first; only where spikes are watched
  int64_t skipped = 0;                     // updates left out, in all
  int64_t skipped_in_a_row = 0;            // and since the last that was applied
  int64_t rewinds = 0;
  bool operator==(const Health&) const = default;
};

struct Manifest {
  // Filled in by the trainer.
  int64_t step = 0;             // optimizer steps done
  int64_t tokens_seen = 0;      // counted over all ranks
  int64_t optimizer_start = 0;  // the step after which the moments began; below 0: they are older than step 0
  uint64_t data_seed = 0;
  uint64_t next_sample = 0;  // the loader's g: the first sample not yet trained on
  // The datasets by their identity, and how they were mixed up to next_sample. A checkpoint that does not say, an old
  // one, was trained on the one dataset `dataset_hash`.
  std::vector<std::string> data_sources;
  std::vector<data::MixtureSegment> data_segments;
  int64_t order_version = 1;   // data::kSampleOrderVersion of the program that wrote it
  uint64_t order_samples = 0;  // that the tables of data.order = "neox" were made for; 0: there are none
  std::string tokenizer;       // "bytes", or the name of the copy of its file in the checkpoint's folder
  std::string tokenizer_hash, dataset_hash;
  std::string token_weights_hash;  // XXH3-128 of the weights of the loss; empty: all 1, or an older checkpoint
  int64_t n_fixed = 0;  // neurons that the data gave every array; 0: those that each has, or an older checkpoint
  Health health;
  int64_t bos = -1, eos = -1;             // the tokenizer's; -1: it has none
  bool document_bos = false;              // whether BOS stood before each document
  std::string tokenizer_file;             // content of the copy, for commit(); no part of hearth.json
  std::string config_toml;                // the resolved configuration
  std::string libtorch_version;           // empty where none was used
  int64_t ranks = 1;                      // that wrote it
  std::string parent;                     // name of the checkpoint this run started or resumed from; empty: none
  std::map<std::string, double> metrics;  // free-form: "loss", "validation_loss"; NaN and infinities are kept
  // Filled in by stamp().
  std::string code_version, host, created;  // `created` is UTC, "2026-01-31T23:59:59Z"
  // Filled in by commit().
  std::vector<formats::Item> items;  // in the order of `.metadata`
  int64_t metadata_length = 0;
  uint64_t metadata_checksum = 0;
};

// Sets code_version, host and created.
void stamp(Manifest& manifest);

// The text of hearth.json, its own checksum included, and back. parse_manifest names `path` in its errors: damaged()
// where the checksum or the structure is wrong, user_error for a format version this program does not know.
std::string format_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const Path& path);

}  // namespace hearth::checkpoint
