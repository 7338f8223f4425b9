// Which documents are held out: a function of their content, so that neither order nor neighbours matter, and a
// repeated text is never on both sides.
#pragma once

#include <optional>
#include <vector>

#include "base/hash.h"
#include "data/build/units.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct Holdout {
  double fraction = 0;           // of all contents
  std::optional<Hash128> moved;  // the content that changes sides, so that a small corpus loses neither
  bool contains(const Hash128& content) const;
};

// Reads documents, in order, until both sides have one: a few hundred of a large corpus, at a fraction that makes
// sense. If a side stays empty, the content whose hash is smallest is moved there. Throws user_error where all
// documents are equal.
Holdout find_holdout(const std::vector<SourceFile>& sources, const std::vector<Unit>& units, const BuildRules& rules);

}  // namespace hearth::data
