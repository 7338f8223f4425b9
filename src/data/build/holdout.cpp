// SPDX-License-Identifier: Apache-2.0
#include "data/build/holdout.h"

#include "base/error.h"
#include "data/build/portion_reader.h"

namespace hearth::data {

bool Holdout::contains(const Hash128& content) const {
  const uint64_t value = xxh3_64("held out: " + to_hex(content));  // decides stored splits: never change
  const bool held_out = static_cast<double>(value >> 11) * 0x1p-53 < fraction;
  return held_out != (moved == content);
}

Holdout find_holdout(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions,
                     const BuildRules& rules) {
  Holdout holdout{rules.validation, {}};
  if (holdout.fraction == 0) return holdout;
  std::optional<Hash128> smallest;
  bool several = false, train = false, held_out = false;
  for (const Portion& portion : portions) {
    PortionReader records(sources, portion, rules);
    for (Document document; records.next(document);) {
      (holdout.contains(document.hash) ? held_out : train) = true;
      if (train && held_out) return holdout;
      several = several || (smallest && *smallest != document.hash);
      if (!smallest || document.hash < *smallest) smallest = document.hash;
    }
  }
  if (!several)
    throw user_error("no document can be held out", "the text is one document, and a document is held out as a whole",
                     "cut long files into documents with --document-bytes 65536, or give --validation 0");
  holdout.moved = smallest;
  return holdout;
}

}  // namespace hearth::data
