// SPDX-License-Identifier: Apache-2.0
// Checks that datasets and models have the same tokenizer: otherwise an id would mean different tokens.
#pragma once

#include <string>

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// The tokenizer of a dataset or of a checkpoint.
struct TokenizerOf {
  std::string owner;  // the folder, for errors
  std::string name, hash;
  Path file{};  // a copy of it to build with; empty: the name is enough
};
TokenizerOf tokenizer_of(const std::string& folder, const DatasetManifest& manifest);

// Throws user_error if the dataset was built with another tokenizer than `other`'s.
void require_same_tokenizer(const TokenizerOf& dataset, const TokenizerOf& other);

}  // namespace hearth::data
