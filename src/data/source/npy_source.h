// An array of spike counts: a .npy file of uint8, [neurons, bins]. Its labels are in a metadata.jsonl in its folder
// (array_labels.h).
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

std::unique_ptr<SourceReader> open_npy_source(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
