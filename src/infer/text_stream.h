// SPDX-License-Identifier: Apache-2.0
// Text that arrives as bytes, token by token, for display. An incomplete character is held back until its last byte,
// and invalid UTF-8 becomes U+FFFD. So a terminal never gets half a character.
#pragma once

#include <string>
#include <string_view>

namespace hearth::infer {

class TextStream {
 public:
  // Takes more bytes and returns the text that can be shown now.
  std::string push(std::string_view bytes);
  // The end of the text: an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::string held_;  // the beginning of a character: at most three bytes
};

}  // namespace hearth::infer
