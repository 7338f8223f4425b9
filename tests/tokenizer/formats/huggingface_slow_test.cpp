// SPDX-License-Identifier: Apache-2.0
// 100 MB of mixed text in several styles of tokenizer.json, id by id.
#include <gtest/gtest.h>

#include "support/mixed_text.h"
#include "tokenizer/reference.h"

namespace hearth::tokenizer {
namespace {

TEST(HuggingFaceSlow, AHundredMegabytesOfMixedTextHaveTheIdsOfTokenizers) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("huggingface");
  uint64_t seed = 200;
  for (const char* style : {"llama2", "qwen2", "deepseek", "neox"}) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((folder / style).string());
    const auto encoder = tokenizer->encoder();
    for (int part = 0; part < 5; ++part) {
      test::MixedText text(seed++);
      std::vector<std::string> documents;
      for (int i = 0; i < 100; ++i) documents.push_back(text.make(50'000));
      test::expect_same_ids(*encoder, documents, test::ids_of_reference(folder / style, documents));
    }
  }
}

}  // namespace
}  // namespace hearth::tokenizer
