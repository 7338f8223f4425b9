// SPDX-License-Identifier: Apache-2.0
// Chooses the held-out documents by a hash of their content. So their order does not matter, and a repeated text is
// never both trained on and held out.
#pragma once

#include <optional>
#include <vector>

#include "base/hash.h"
#include "data/build/portions.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct Holdout {
  double fraction = 0;           // of all contents
  std::optional<Hash128> moved;  // this content changes sides, so that a small corpus has both sides
  bool contains(const Hash128& content) const;
};

// Reads documents in order until both sides have one: a few hundred of a large corpus, with a usual fraction. If a side
// stays empty, the content with the smallest hash is moved there. Throws user_error if all documents are equal.
Holdout find_holdout(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions,
                     const BuildRules& rules);

}  // namespace hearth::data
