// SPDX-License-Identifier: Apache-2.0
#include "infer/text_stream.h"

namespace hearth::infer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of a character with first byte `lead`; 0 for an invalid first byte: C0, C1 and F5 to FF (RFC 3629).
size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Whether `byte` is valid at place `index` >= 1 of a character. The second byte excludes overlong forms, surrogates and
// code points above U+10FFFF (Unicode table 3-7).
bool continues(unsigned char lead, size_t index, unsigned char byte) {
  if (byte < 0x80 || byte > 0xBF) return false;
  if (index != 1) return true;
  if (lead == 0xE0) return byte >= 0xA0;
  if (lead == 0xED) return byte <= 0x9F;
  if (lead == 0xF0) return byte >= 0x90;
  if (lead == 0xF4) return byte <= 0x8F;
  return true;
}

}  // namespace

std::string TextStream::push(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!held_.empty()) {
      const auto lead = static_cast<unsigned char>(held_[0]);
      if (continues(lead, held_.size(), byte)) {
        held_ += c;
        if (held_.size() == length_of(lead)) {
          shown += held_;
          held_.clear();
        }
        continue;
      }
      shown += kReplacement;
      held_.clear();
    }
    switch (length_of(byte)) {
      case 0:
        shown += kReplacement;
        break;
      case 1:
        shown += c;
        break;
      default:
        held_ = c;
    }
  }
  return shown;
}

std::string TextStream::finish() {
  const std::string shown(held_.empty() ? std::string_view{} : kReplacement);
  held_.clear();
  return shown;
}

}  // namespace hearth::infer
