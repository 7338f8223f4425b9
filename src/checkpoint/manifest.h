// SPDX-License-Identifier: Apache-2.0
// hearth.json: what a checkpoint contains, its origin, and a checksum for every byte of the folder. The format is
// described in docs/checkpoint_format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

// Stored on disk: never change; a new meaning gets a new number.
inline constexpr int64_t kFormatVersion = 1;
inline constexpr const char* kManifestFile = "hearth.json";
inline constexpr const char* kMetadataFile = ".metadata";

struct Manifest {
  // Filled in by the trainer.
  int64_t step = 0;             // optimizer steps done
  int64_t tokens_seen = 0;      // counted over all ranks
  int64_t optimizer_start = 0;  // the moments began after this step; below 0: before step 0
  // States that other folders of src/ store here, by name. Each is the text of a JSON object that only its folder
  // reads. "data": data/order/data_state.h; "health": run/health.h. Unknown names are kept.
  std::map<std::string, std::string> states;
  std::string state(const std::string& name) const;  // "{}" if it is missing
  std::string tokenizer;  // "bytes", or the name of the copy of its file in the checkpoint's folder
  std::string tokenizer_hash, dataset_hash;
  std::string token_weights_hash;  // XXH3-128 of the weights of the loss; empty: all 1, or an older checkpoint
  int64_t n_fixed = 0;         // neurons of every array, fixed by the data; 0: each has its own, or an older checkpoint
  int64_t bos = -1, eos = -1;  // the tokenizer's; -1: it has none
  bool document_bos = false;   // whether BOS begins each document
  std::string tokenizer_file;  // content of the copy, for commit(); not in hearth.json
  std::string config_toml;     // the resolved configuration
  std::string libtorch_version;           // empty: written without LibTorch
  int64_t ranks = 1;                      // ranks that wrote it
  std::string parent;                     // the checkpoint that this run started or resumed from, by name; empty: none
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

// Formats and parses hearth.json with its own checksum. parse_manifest names `path` in its errors: damaged() if the
// checksum or the structure is wrong, user_error for an unknown format version.
std::string format_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const Path& path);

}  // namespace hearth::checkpoint
