// SPDX-License-Identifier: Apache-2.0
#include "data/shard/same_tokenizer.h"

#include "base/error.h"

namespace hearth::data {

TokenizerOf tokenizer_of(const std::string& folder, const DatasetManifest& manifest) {
  return {folder, manifest.rules.tokenizer, manifest.tokenizer_hash};
}

void require_same_tokenizer(const TokenizerOf& dataset, const TokenizerOf& other) {
  if (dataset.hash == other.hash) return;
  throw user_error(fmt::format("{} was built with another tokenizer than {}", dataset.owner, other.owner),
                   fmt::format("its tokenizer is {} ({}), that of {} is {} ({}): the same id would mean two things",
                               dataset.name, dataset.hash, other.owner, other.name, other.hash),
                   fmt::format("build {} again: hearth data build --tokenizer {} ...", dataset.owner,
                               path_exists(other.file) ? other.file.string() : other.name));
}

}  // namespace hearth::data
