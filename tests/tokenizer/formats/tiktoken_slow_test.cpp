// SPDX-License-Identifier: Apache-2.0
// 100 MB of mixed text, id by id.
#include <gtest/gtest.h>

#include "support/mixed_text.h"
#include "tokenizer/formats/tiktoken.h"
#include "tokenizer/llama3_reference.h"

namespace hearth::tokenizer {
namespace {

TEST(TiktokenSlow, AHundredMegabytesOfMixedTextHaveTheIdsOfTheReferences) {
  HEARTH_NEEDS_ORACLE();
  const std::string file = read_file(llama3_model());
  const TiktokenTokenizer with_cuts(file, "tokenizer.model"), without_cuts(file, "tokenizer.model", false);
  const auto encoder = with_cuts.encoder(), plain = without_cuts.encoder();
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const std::string text = test::MixedText(seed).make(10'000'000);
    const test::ScratchFolder folder;
    write_file_atomic(folder / "text", text);
    for (const std::string how : {"meta", "huggingface"}) {
      if (how == "huggingface" && seed % 5 != 0) continue;  // ten times slower than the others
      ask_reference("ids " + (folder / "text").string() + " " + (folder / "ids").string() + " " + how);
      std::vector<uint32_t> ids;
      (how == "meta" ? encoder : plain)->encode(text, ids);
      ASSERT_TRUE(ids == read_numbers<uint32_t>(folder / "ids")) << how << ", seed " << seed;
      ASSERT_TRUE(with_cuts.decode_all(ids) == text) << how << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace hearth::tokenizer
