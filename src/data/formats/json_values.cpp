// SPDX-License-Identifier: Apache-2.0
#include "data/formats/json_values.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hearth::data {

JsonValues::JsonValues(std::unique_ptr<ByteStream> stream, int64_t max_bytes)
    : buffer_(std::move(stream)), max_bytes_(static_cast<size_t>(max_bytes)) {}

void JsonValues::fail(std::string_view what) const {
  throw damaged(fmt::format("not JSON at line {}: {}", line_, what));
}

void JsonValues::take(size_t bytes) {
  const std::string_view taken = buffer_.held().substr(0, bytes);
  line_ += std::ranges::count(taken, '\n');
  buffer_.drop(bytes);
}

int JsonValues::peek() {
  for (;;) {
    const std::string_view held = buffer_.held();
    const size_t spaces = std::min(held.find_first_not_of(" \t\r\n"), held.size());
    take(spaces);
    if (spaces < held.size()) return static_cast<unsigned char>(held[spaces]);
    if (!fill()) return -1;
  }
}

void JsonValues::begin() {
  buffer_.drop_byte_order_mark();
  in_array_ = peek() == '[';
  if (in_array_) take(1);
}

bool JsonValues::find_value() {
  int c = peek();
  if (!in_array_) return c != -1;
  const bool first = !std::exchange(after_value_, true);
  if (c == ']') {
    take(1);
    if (peek() != -1) fail("something follows the array");
    in_array_ = false;
    return false;
  }
  if (!first) {
    if (c != -1 && c != ',') fail("a comma or ] is expected");
    if (c == ',') take(1);
    c = peek();
    if (c == ']') fail("a value is expected after the comma");
  }
  if (c == -1) fail("the array has no end");
  return true;
}

// More of the stream; false at its end. What was scanned of a value that is too long is dropped.
bool JsonValues::more(size_t& scanned, JsonValue& value) {
  if (scanned > max_bytes_) {
    value.too_long = true;
    take(scanned);
    scanned = 0;
  }
  return fill();
}

bool JsonValues::fill() {
  at_end_ = !buffer_.fill();
  return !at_end_;
}

// The end of an object, a list or a string in the held bytes.
size_t JsonValues::scan_nested(JsonValue& value) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0;; ++i) {
    if (i == buffer_.held().size() && !more(i, value)) fail(in_string ? "a string has no end" : "a value has no end");
    const std::string_view held = buffer_.held();
    if (in_string) {
      i = std::min(held.find_first_of("\"\\", i), held.size());
      if (i == held.size()) {
        --i;
        continue;
      }
      if (held[i] == '\\') {  // the next one is no quote
        if (++i == held.size() && !more(i, value)) fail("a string has no end");
        continue;
      }
      in_string = false;
    } else if (held[i] == '"') {
      in_string = true;
      continue;
    } else if (held[i] == '{' || held[i] == '[') {
      ++depth;
      continue;
    } else if (held[i] == '}' || held[i] == ']') {
      --depth;
    } else {
      continue;
    }
    if (depth == 0) return i + 1;
  }
}

// The end of a number, a truth value or null.
size_t JsonValues::scan_word(JsonValue& value) {
  for (size_t i = 0;; ++i) {
    if (i == buffer_.held().size() && !more(i, value)) return i;
    if (std::string_view(" \t\r\n,]}[{\":").find(buffer_.held()[i]) == std::string_view::npos) continue;
    if (i == 0 && !value.too_long) fail("a value is expected");
    return i;
  }
}

bool JsonValues::next(JsonValue& value) {
  take(std::exchange(given_, 0));
  if (!std::exchange(begun_, true)) begin();
  if (!find_value()) return false;
  value = {buffer_.position(), line_, {}, false};
  const char first = buffer_.held()[0];
  const size_t length = first == '{' || first == '[' || first == '"' ? scan_nested(value) : scan_word(value);
  value.too_long = value.too_long || length > max_bytes_;
  if (!value.too_long) value.text = buffer_.held().substr(0, length);
  given_ = length;
  return true;
}

}  // namespace hearth::data
