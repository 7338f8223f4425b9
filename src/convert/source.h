// SPDX-License-Identifier: Apache-2.0
// Opens a checkpoint of any kind: its weights under Hearth's names, and what it says about its model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "convert/description.h"
#include "convert/kind.h"
#include "convert/training_state.h"

namespace hearth::convert {

// How GPT-NeoX joins the rows of queries, keys and values where several heads share a key: as slots, each with one
// query head and its part of a key and a value; or split: all queries, then all keys, then all values. Both have the
// same shape.
enum class QkvLayout { kSlots, kSplit };

struct Source {
  Kind kind;
  checkpoint::Reader reader;  // names are Hearth's; a name that is in no table is kept
  // Empty for folders of PyTorch, which say nothing.
  std::optional<Description> description;
  std::vector<std::string> notes;                        // for the console
  std::optional<TrainingState> training = std::nullopt;  // empty: weights only
  std::optional<Kind> names = std::nullopt;              // the dialect of the files' names, if it is another kind's
};

// Opens the weights. Headers and shapes are checked now; elements are read later. Throws user_error or damaged(), which
// name the file.
// `described`: the keys of the model, for kinds that do not describe it; null: not known.
Source open_source(const FoundWeights& found, const Description* described = nullptr,
                   std::optional<QkvLayout> layout = std::nullopt);

// Fills in the vocabulary's size from the embedding if the description lacks it.
void complete_vocabulary(Source& source);

// From now on the reader gives queries and keys in this order. Does nothing without a description.
void give_pairs(Source& source, config::RopePairs pairs);

// The weights for a run with these keys, from any kind: for checkpoint.initial_load_path. Queries and keys come in the
// order of `model.rope_pairs`.
Source open_for_run(const Path& folder, const config::Model& model);

// The weights as they are stored. Use it to look at a checkpoint of ours even if this program does not understand its
// configuration: there is no description. Another program's files describe themselves.
Source open_for_inspection(const Path& folder);

// Whether the checkpoint was converted from files without a tokenizer: its tokens have no text.
bool is_without_tokenizer(const checkpoint::Manifest& manifest);
// Whether the checkpoint says where in the data its training stopped. False for other programs' files, also after a
// conversion.
bool has_data_state(const checkpoint::Reader& reader);

// Whether the output matrix is there and has the embedding's elements, bit by bit. Reads both up to the first
// difference.
bool output_is_embedding(checkpoint::Reader& reader);

}  // namespace hearth::convert
