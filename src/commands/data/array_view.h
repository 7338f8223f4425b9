// Arrays of counts as text for people.
#pragma once

#include <cstdint>

#include "data/shard/dataset.h"

namespace hearth::commands {

// What an array is: its labels and shape, on a line.
void print_array_labels(const data::Split& split, int64_t document);

// Tokens [begin, end) of the split, which are of one array, decoded: a line a neuron, time to the right. "." is 0, "+"
// ten or more, a blank: the tokens do not show it. Where not all neurons or bins fit, a line says how many there are.
void print_array(const data::Split& split, int64_t document, int64_t begin, int64_t end, const data::Draw& draw,
                 int64_t neurons_shown);

}  // namespace hearth::commands
