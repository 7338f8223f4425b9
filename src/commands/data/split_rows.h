// A line for each split of a dataset that was made: documents or arrays, tokens, bytes of text, shards.
#pragma once

#include "data/shard/manifest.h"

namespace hearth::commands {

void print_split_rows(const data::Manifest& manifest);

}  // namespace hearth::commands
