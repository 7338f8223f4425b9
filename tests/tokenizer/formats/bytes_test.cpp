// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/bytes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

TEST(Bytes, EveryByteIsItsOwnIdAndComesBack) {
  std::string text;
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  const auto tokenizer = open_tokenizer("bytes");
  std::vector<uint32_t> ids = {7};  // encode appends
  tokenizer->encode(text, ids);
  ASSERT_EQ(ids.size(), 257u);
  std::string back;
  for (uint32_t i = 0; i < 256; ++i) {
    EXPECT_EQ(ids[i + 1], i);
    tokenizer->decode(ids[i + 1], back);
  }
  EXPECT_EQ(back, text);
}

TEST(Bytes, SpecialTokensFollowTheBytesAndAreNoText) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->bos(), 256u);
  EXPECT_EQ(tokenizer->eos(), 257u);
  std::string text;
  tokenizer->decode(256, text);
  tokenizer->decode(257, text);
  EXPECT_EQ(text, "");
}

TEST(Bytes, AnIdOutsideTheVocabularyIsAUserError) {
  std::string text;
  try {
    open_tokenizer("bytes")->decode(258, text);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), "token 258 is outside the vocabulary");
  }
}

// Manifests and checkpoints store this value: never change.
TEST(Bytes, ContentHashIsFixed) {
  EXPECT_EQ(open_tokenizer("bytes")->content_hash(), "2105be2c4cfaa69af2fc47a560700c5c");
  EXPECT_EQ(open_tokenizer("bytes")->name(), "bytes");
}

TEST(OpenTokenizer, AnUnknownNameSaysWhatThereIs) {
  try {
    open_tokenizer("byte");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), "there is no tokenizer \"byte\"");
    EXPECT_EQ(e.why(), "it is not \"bytes\" or \"spikes\", and there is no such file or folder");
  }
}

}  // namespace
}  // namespace hearth::tokenizer
