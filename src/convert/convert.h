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

// Each feed-forward becomes a mixture of `experts` copies of it, of which a token takes `top_k`.
struct Upcycling {
  int64_t experts, top_k;
};

struct Options {
  Path in, out;
  std::optional<Kind> from;  // empty: found from the files
  Kind to;
  std::optional<DType> dtype;                   // type of the target's weights; empty: the source's
  std::optional<config::RopePairs> rope_pairs;  // row order of a native target; empty: the source's
  std::optional<QkvLayout> qkv_layout;          // of GPT-NeoX's files in `in`; empty: their names decide it
  std::optional<QkvLayout> to_layout;           // of a target of GPT-NeoX, which needs it
  int64_t tensor_parallel = 1;                  // ranks of a target of Meta, GPT-NeoX or NxD
  int64_t pipeline_parallel = 1;                // stages of a target of GPT-NeoX or NxD
  int64_t data_parallel = 1;                    // slices of the moments in a target of GPT-NeoX or NxD with `resume`
  std::optional<NxdLayout> nxd;                 // of a target of NxD; empty: the default
  Path config;                            // a run file whose [model] describes a source that does not describe itself
  std::string tokenizer;                  // used in place of the source's; empty: the source's
  std::optional<int64_t> max_file_bytes;  // for a target of Hugging Face; empty: 5 GB
  bool is_published = false;              // a native target for other machines: no moments, no paths
  std::optional<Upcycling> upcycling;     // of a native target without moments; empty: the source's feed-forwards
  bool resume = false;                    // also converts the training's state; torchtitan, GPT-NeoX and NxD only
  // Called with the written files, to compare their logits with the source's (infer/proof.h). Returns a sentence for
  // the model card. If it throws, nothing gets the name OUT. Empty: not called.
  std::function<std::string(const Written& written)> prove{};
};

struct Result {
  Kind from;
  int64_t tensors = 0, parameters = 0, bytes = 0;
  std::vector<std::string> notes;  // for the console
  std::string proof;               // what Options::prove returned
};

// Throws user_error for options that contradict each other, and if OUT exists.
void check_options(const Options& options);
// Throws user_error if `out` exists.
void require_new(const Path& out);
// The keys of the run file Options::config; empty: none was given.
std::optional<config::RunConfig> keys_of(const Options& options);

// Writes OUT, which must not exist yet, under a temporary name first. The rest of an interrupted conversion to OUT is
// removed. Throws user_error for a model that the target cannot store, and for an incomplete one.
Result convert(const Options& options, ConvertProgress& progress);

// The functions below are parts of convert(), and append to the source's notes. The tokenizer that the target gets;
// null: none. Only a native target needs one.
std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(Source& source, const Options& options);
// The chat templates that come with the tokenizer; empty: none.
std::string chat_template_for(Source& source, const Options& options);
// The tensors of the mixture, from the weights of the dense model. Changes the keys of `model`. Routers are drawn at
// random. Throws user_error for a model that cannot become one.
std::vector<Transfer> upcycle(config::Model& model, const Upcycling& by, const std::vector<Transfer>& dense);
// Finds the mask token of a native checkpoint's training, and notes what the kind `to` cannot store.
void complete_objective(Source& source, Kind to);

// The source of a conversion. Its description, if it has one, is complete.
Source open_source_of(const Options& options);
// Opens the written files in the same way.
Source open_written(const Written& written);

}  // namespace hearth::convert
