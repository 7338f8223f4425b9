// hearth.json: what a checkpoint is, where it came from, and a checksum for every byte beside it.
// The format is described in docs/checkpoint_format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

// Stored on disk: never change; a new meaning is a new number.
inline constexpr int64_t kFormatVersion = 1;
inline constexpr const char* kManifestFile = "hearth.json";
inline constexpr const char* kMetadataFile = ".metadata";

struct Manifest {
  // Filled in by the trainer.
  int64_t step = 0;             // optimizer steps done
  int64_t tokens_seen = 0;      // counted over all ranks
  int64_t optimizer_start = 0;  // the step after which the moments began; below 0: they are older than step 0
  // What other rooms remember, by name: the text of a JSON object each, which only they read. "data":
  // data/order/data_state.h; "health": run/health.h. A name that this program does not know is kept.
  std::map<std::string, std::string> states;
  std::string state(const std::string& name) const;  // "{}" where it is not there
  std::string tokenizer;  // "bytes", or the name of the copy of its file in the checkpoint's folder
  std::string tokenizer_hash, dataset_hash;
  std::string token_weights_hash;  // XXH3-128 of the weights of the loss; empty: all 1, or an older checkpoint
  int64_t n_fixed = 0;         // neurons that the data gave every array; 0: those that each has, or an older checkpoint
  int64_t bos = -1, eos = -1;  // the tokenizer's; -1: it has none
  bool document_bos = false;   // whether BOS stood before each document
  std::string tokenizer_file;  // content of the copy, for commit(); no part of hearth.json
  std::string config_toml;     // the resolved configuration
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
