#include <fmt/core.h>

#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/pickle.h"

namespace hearth::formats {
namespace {

void append_little_endian(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace

PickleWriter::PickleWriter() { out_ = std::string("\x80\x02"); }

bool PickleWriter::recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  if (found->second < 256) {
    out_.push_back('h');
    append_little_endian(out_, found->second, 1);
  } else {
    out_.push_back('j');
    append_little_endian(out_, found->second, 4);
  }
  return true;
}

void PickleWriter::remember(const std::string& key) {
  const uint32_t index = static_cast<uint32_t>(memo_.size());
  memo_.emplace(key, index);
  if (index < 256) {
    out_.push_back('q');
    append_little_endian(out_, index, 1);
  } else {
    out_.push_back('r');
    append_little_endian(out_, index, 4);
  }
}

void PickleWriter::none() { out_.push_back('N'); }
void PickleWriter::boolean(bool value) { out_.push_back(value ? '\x88' : '\x89'); }

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    out_.push_back('K');
    append_little_endian(out_, static_cast<uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    out_.push_back('J');
    append_little_endian(out_, static_cast<uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    append_little_endian(out_, static_cast<uint64_t>(value), 8);
  }
}

// The one number that pickles have with its highest byte first.
void PickleWriter::real(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  out_.push_back('G');
  for (int shift = 56; shift >= 0; shift -= 8) out_.push_back(static_cast<char>(bits >> shift & 0xff));
}

void PickleWriter::string(std::string_view text) {
  std::string key("s");
  key += text;
  if (recall(key)) return;
  HEARTH_CHECK(text.size() <= std::numeric_limits<uint32_t>::max());
  out_.push_back('X');
  append_little_endian(out_, text.size(), 4);
  out_ += text;
  remember(key);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  const std::string key = fmt::format("g{}\n{}\n", module, name);
  if (recall(key)) return;
  out_.push_back('c');
  out_.append(key, 1);
  remember(key);
}

void PickleWriter::mark() { out_.push_back('('); }
void PickleWriter::tuple() { out_.push_back('t'); }
void PickleWriter::append_items() { out_.push_back('e'); }
void PickleWriter::set_items() { out_.push_back('u'); }
void PickleWriter::empty_tuple() { out_.push_back(')'); }
void PickleWriter::empty_list() { out_.push_back(']'); }
void PickleWriter::empty_dict() { out_.push_back('}'); }
void PickleWriter::reduce() { out_.push_back('R'); }
void PickleWriter::new_object() { out_.push_back('\x81'); }
void PickleWriter::build() { out_.push_back('b'); }
void PickleWriter::persistent_id() { out_.push_back('Q'); }

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
  out_.push_back('.');
  memo_.clear();
  return std::exchange(out_, std::string("\x80\x02"));
}

}  // namespace hearth::formats
