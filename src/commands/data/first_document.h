// What a build says about its tokens, so that a wrong BOS or EOS is seen before it costs a training.
#pragma once

#include "data/shard/dataset.h"

namespace hearth::commands {

// Prints which tokens stand around documents, how much special text was met, and the first document's first tokens.
void print_first_document(const data::Dataset& dataset);

}  // namespace hearth::commands
