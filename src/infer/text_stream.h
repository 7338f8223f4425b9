// Text that arrives as bytes, token by token, and is shown as it comes: a character of several bytes is held back until
// it is whole, and bytes that are no UTF-8 become U+FFFD, so that a terminal never sees half a character.
#pragma once

#include <string>
#include <string_view>

namespace hearth::infer {

class TextStream {
 public:
  // Takes more bytes and returns what can be shown now.
  std::string push(std::string_view bytes);
  // The end: what is still held back is no character.
  std::string finish();

 private:
  std::string held_;  // the beginning of a character: at most three bytes
};

}  // namespace hearth::infer
