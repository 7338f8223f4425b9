// SPDX-License-Identifier: Apache-2.0
#include "data/shard/same_tokenizer.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace hearth::data {
namespace {

TEST(SameTokenizer, AnotherOneIsNamedWithWhatToBuildWith) {
  const test::ScratchFolder scratch;
  const TokenizerOf dataset{"books", "bytes", "01"}, kept{"step-4", "tokenizer.json", "02", scratch / "tokenizer.json"};
  require_same_tokenizer(dataset, {"step-4", "tokenizer.json", "01"});  // the name alone does not identify a tokenizer
  const std::string before =
      "error: books was built with another tokenizer than step-4\n"
      "  why: its tokenizer is bytes (01), that of step-4 is tokenizer.json (02): the same id would mean two "
      "things\n"
      "  fix: build books again: hearth data build --tokenizer ";
  EXPECT_EQ(test::error_of([&] { require_same_tokenizer(dataset, kept); }).what(), before + "tokenizer.json ...");
  write_file_atomic(scratch / "tokenizer.json", "{}");
  EXPECT_EQ(test::error_of([&] { require_same_tokenizer(dataset, kept); }).what(),
            before + kept.file.string() + " ...");
}

}  // namespace
}  // namespace hearth::data
