// SPDX-License-Identifier: Apache-2.0
// Arrays of counts as text for people.
#pragma once

#include <cstdint>

#include "data/shard/dataset.h"

namespace hearth::commands {

// Prints an array's labels and shape on a line.
void print_array_labels(const data::Split& split, int64_t document);

// Prints tokens [begin, end) of the split, all of one array, decoded: one line per neuron, time to the right. "." is 0,
// "+" ten or more, a blank is a bin without a token in the range. If neurons or bins do not fit, a line gives their
// numbers.
void print_array(const data::Split& split, int64_t document, int64_t begin, int64_t end, const data::Draw& draw,
                 int64_t neurons_shown);

}  // namespace hearth::commands
