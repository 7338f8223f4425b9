// The first tokens of a build: they show a wrong BOS or EOS before a training.
#pragma once

#include "data/shard/dataset.h"

namespace hearth::commands {

// Prints the tokens around documents, the count of special text, and the first document's first tokens.
void print_first_document(const data::Dataset& dataset);

}  // namespace hearth::commands
