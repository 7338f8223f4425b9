// SPDX-License-Identifier: Apache-2.0
// Best-fit-decreasing packing (data.packing = "best_fit"): documents share sequences, with few cuts and little padding.
// Use it if cut documents harm the model; it costs some positions of padding, and a table that is made once. A document
// that fits into a sequence is never cut. Source: Ding et al., "Fewer truncations improve language modeling", 2024
// (arXiv:2404.10830).
//
// docs/data_format.md defines the sequences. Stored runs depend on them: never change.
#pragma once

#include <cstdint>

#include "data/order/window_table.h"
#include "data/shard/dataset.h"

namespace hearth::data {

inline constexpr int64_t kBestFitGroup = 1 << 16;  // documents that are packed together

// Windows of seq_len positions over the documents of `split`. Every token is an input once, and the label of the
// position before it in its document. A document's first token is the label of the position before it in the row, if
// there is one. The result is the same for any number of threads. Tests take smaller groups.
TableArrays best_fit_table(const Split& split, int64_t seq_len, int64_t threads, int64_t group_size = kBestFitGroup);

}  // namespace hearth::data
