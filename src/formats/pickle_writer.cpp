// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/pickle.h"

namespace hearth::formats {

void PickleWriter::put(char opcode, uint64_t argument, int width) {
  put(opcode);
  for (int i = 0; i < width; ++i) out_.push_back(static_cast<char>(argument >> (8 * i) & 0xff));
}

void PickleWriter::put_memo(char narrow_opcode, char opcode, uint32_t index) {
  if (index < 256)
    put(narrow_opcode, index, 1);
  else
    put(opcode, index, 4);
}

bool PickleWriter::recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  put_memo('h', 'j', found->second);
  return true;
}

void PickleWriter::remember(const std::string& key) {
  const uint32_t index = static_cast<uint32_t>(memo_.size());
  memo_.emplace(key, index);
  put_memo('q', 'r', index);
}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    put('K', static_cast<uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    put('J', static_cast<uint64_t>(value), 4);
  } else {
    put('\x8a');
    put('\x08', static_cast<uint64_t>(value), 8);  // its number of bytes
  }
}

// The one number that pickles have with its highest byte first.
void PickleWriter::real(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  put('G');
  for (int shift = 56; shift >= 0; shift -= 8) out_.push_back(static_cast<char>(bits >> shift & 0xff));
}

void PickleWriter::string(std::string_view text) {
  std::string key("s");
  key += text;
  if (recall(key)) return;
  HEARTH_CHECK(text.size() <= std::numeric_limits<uint32_t>::max());
  put('X', text.size(), 4);
  out_ += text;
  remember(key);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  const std::string key = fmt::format("g{}\n{}\n", module, name);
  if (recall(key)) return;
  put('c');
  out_.append(key, 1);
  remember(key);
}

void PickleWriter::instance(std::string_view module, std::string_view name) {
  global(module, name);
  empty_tuple();
  new_object();
}

void PickleWriter::integers(std::span<const int64_t> values) {
  mark();
  for (const int64_t value : values) integer(value);
  tuple();
}

void PickleWriter::size(std::span<const int64_t> values) {
  global("torch", "Size");
  mark();
  integers(values);
  tuple();
  reduce();
}

std::string PickleWriter::finish() {
  put('.');
  memo_.clear();
  return std::exchange(out_, std::string("\x80\x02"));
}

}  // namespace hearth::formats
