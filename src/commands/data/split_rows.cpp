#include "commands/data/split_rows.h"

#include <fmt/core.h>

#include "base/quantity.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {

void print_split_rows(const data::Manifest& manifest) {
  const bool arrays = tokenizer::is_name_of_arrays(manifest.rules.tokenizer);
  for (const data::SplitEntry& split : manifest.splits) {
    const char* many = arrays ? "arrays" : "documents";
    const char* one = arrays ? "array " : "document ";
    fmt::print("{:<10} {:>9} {} {:>14} tokens{} {:>5} {}\n", split.name, split.documents,
               split.documents == 1 ? one : many, split.tokens,
               split.text_bytes > 0 ? fmt::format(" {:>12} of text", format_bytes(split.text_bytes)) : "",
               split.shards.size(), split.shards.size() == 1 ? "shard" : "shards");
  }
}

}  // namespace hearth::commands
