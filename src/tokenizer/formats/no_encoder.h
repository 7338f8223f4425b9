// SPDX-License-Identifier: Apache-2.0
// The encoder of tokenizers without text: it refuses every text that is not empty.
#pragma once

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

class NoEncoder final : public Encoder {
 public:
  explicit NoEncoder(Error refusal)
      : refusal_(std::move(refusal)) {}  // NOLINT(bugprone-throw-keyword-missing): it is kept
  void encode(std::string_view text, std::vector<uint32_t>&) override {
    if (!text.empty()) throw refusal_;
  }

 private:
  Error refusal_;
};

}  // namespace hearth::tokenizer
