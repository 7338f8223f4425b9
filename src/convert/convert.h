// SPDX-License-Identifier: Apache-2.0
// Converts a checkpoint of any kind to any other: `hearth convert`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "config/choices.h"
#include "config/config.h"
#include "convert/kind.h"
#include "convert/nxd.h"
#include "convert/source.h"
#include "convert/transfer.h"
#include "tokenizer/tokenizer.h"

namespace hearth::convert {

// The files of a conversion before they get their final name.
struct Written {
  Path folder;
  Kind kind;
  Description description;  // what was written; for kinds that do not describe themselves
  std::optional<QkvLayout> qkv_layout;
};

struct Options {
  Path in, out;
  std::optional<Kind> from;  // empty: found from the files
  Kind to;
  std::optional<DType> dtype;                   // of the target's weights; empty: the source's
  std::optional<config::RopePairs> rope_pairs;  // of a native target; empty: the source's order
  std::optional<QkvLayout> qkv_layout;          // of GPT-NeoX's files; empty: where their names decide
  std::optional<QkvLayout> to_layout;           // of a target of GPT-NeoX, which needs it
  int64_t tensor_parallel = 1;                  // ranks of a target of Meta, GPT-NeoX or NxD
  int64_t pipeline_parallel = 1;                // stages of a target of GPT-NeoX or NxD
  int64_t data_parallel = 1;                    // of GPT-NeoX or NxD with `resume`: slices of the moments
  std::optional<NxdLayout> nxd;                 // of a target of NxD; empty: the default
  Path config;                            // a run file whose [model] describes a source that says nothing; empty: none
  std::string tokenizer;                  // in place of the source's; empty: the source's
  std::optional<int64_t> max_file_bytes;  // of a target of Hugging Face; empty: 5 GB
  bool is_published = false;              // of a native target, for other machines: without moments and without paths
  bool resume = false;                    // with the state of the training; torchtitan, GPT-NeoX and NxD only
  // Called with the written files (infer/proof.h); the result is a sentence for the model card. If it throws, nothing
  // gets the name OUT. Empty: not called.
  std::function<std::string(const Written& written)> prove{};
};

struct Result {
  Kind from;
  int64_t tensors = 0, parameters = 0, bytes = 0;
  std::vector<std::string> notes;  // for the console
  std::string proof;               // what Options::prove returned
};

// Throws user_error for options that do not go together, and for an OUT that exists.
void check_options(const Options& options);
// Throws user_error if `out` exists.
void require_new(const Path& out);
// The keys of Options::config; empty: none is given.
std::optional<config::RunConfig> keys_of(const Options& options);

// Writes OUT, which must not exist yet, under a temporary name first. The rest of an interrupted conversion to OUT is
// removed. Throws user_error for a model that the target has no home for, and for one that is not complete.
Result convert(const Options& options, ConvertProgress& progress);

// Parts of convert(), which append to the source's notes. The tokenizer that the target gets; null: none, which only a
// native target does not allow.
std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(Source& source, const Options& options);
// The chat templates that come with the tokenizer; empty: none.
std::string chat_template_for(Source& source, const Options& options);
// Finds the mask that hid tokens in the training of a native checkpoint, and says what kind `to` has no home for.
void complete_objective(Source& source, Kind to);

// The source of a conversion. If it has a description, that is complete: no key is left to another one.
Source open_source_of(const Options& options);
// The same for what was written.
Source open_written(const Written& written);

}  // namespace hearth::convert
