// SPDX-License-Identifier: Apache-2.0
#include "formats/npy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"

namespace hearth::formats {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. No other literals are
// understood.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool take(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> string() {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return {};
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return {};
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }
  std::optional<std::vector<int64_t>> tuple() {
    if (!take("(")) return {};
    std::vector<int64_t> values;
    while (!take(")")) {
      skip_space();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) return {};
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      take("L");  // as Python 2 wrote it
      values.push_back(value);
      if (!take(",") && !text_.starts_with(")")) return {};
    }
    return values;
  }
  bool at_end() {
    skip_space();
    return text_.empty();
  }

 private:
  void skip_space() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }
  std::string_view text_;
};

bool parse_literal(std::string_view text, NpyHeader& header) {
  Literal literal(text);
  bool descr = false, order = false, shape = false;
  if (!literal.take("{")) return false;
  while (!literal.take("}")) {
    const auto key = literal.string();
    if (!key || !literal.take(":")) return false;
    if (*key == "descr") {
      const auto value = literal.string();
      if (!value) return false;
      header.descr = *value;
      descr = true;
    } else if (*key == "fortran_order") {
      header.fortran_order = literal.take("True");
      if (!header.fortran_order && !literal.take("False")) return false;
      order = true;
    } else if (*key == "shape") {
      const auto value = literal.tuple();
      if (!value) return false;
      header.shape = *value;
      shape = true;
    } else {
      return false;
    }
    literal.take(",");
  }
  return descr && order && shape && literal.at_end();
}

// A zip archive; before PyTorch 1.6 a pickle.
bool is_torch_file(std::string_view file) { return file.starts_with("PK\x03\x04") || file.starts_with("\x80\x02"); }

float as_float(double value) {
  const bool fits = !(std::abs(value) > std::numeric_limits<float>::max());  // true for NaN
  return fits ? static_cast<float>(value)
              : std::copysign(std::numeric_limits<float>::infinity(), value < 0 ? -1.F : 1.F);
}

}  // namespace

bool looks_like_npy(std::string_view first_bytes) { return first_bytes.starts_with(kNpyMagic); }

NpyHeader parse_npy_header(std::string_view file, const std::string& what) {
  if (!looks_like_npy(file))
    throw user_error(fmt::format("{} is no .npy file", what), "it does not start with the bytes of .npy files");
  const size_t magic = kNpyMagic.size() + 2;
  const auto cut = [&] { return damaged(fmt::format("{} is cut short", what), "it ends inside its header"); };
  if (file.size() < magic) throw cut();
  const int version = static_cast<unsigned char>(file[kNpyMagic.size()]);
  if (version < 1 || version > 3)
    throw user_error(fmt::format("{} has version {} of .npy", what, version), "1 to 3 are known");
  const size_t width = version == 1 ? 2 : 4;
  if (file.size() < magic + width) throw cut();
  uint32_t length = 0;
  std::memcpy(&length, file.data() + magic, width);
  if (file.size() - magic - width < length) throw cut();
  NpyHeader header;
  header.data_offset = magic + width + length;
  if (!parse_literal(file.substr(magic + width, length), header))
    throw user_error(fmt::format("{} has a header that is not understood", what), "it describes no array of numbers");
  return header;
}

std::string npy_header(std::string_view descr, std::span<const int64_t> shape) {
  std::string sizes;
  for (const int64_t size : shape)
    sizes += fmt::format("{},{}", size, shape.size() == 1 || &size == &shape.back() ? "" : " ");
  if (shape.size() > 1) sizes.pop_back();  // a tuple of one keeps its comma: (3,) but (3, 4)
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  const size_t before = kNpyMagic.size() + 2 + 2;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  return std::string(kNpyMagic) + std::string("\x01\x00", 2) +
         std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

std::vector<float> read_npy_vector(const Path& path) {
  const std::string file = read_file(path);
  if (is_torch_file(file))
    throw user_error(fmt::format("{} is no .npy file", path.string()), "it begins like a file of torch.save",
                     fmt::format("convert it: python3 -c \"import numpy, torch; numpy.save('{}', "
                                 "torch.load('{}').float().numpy())\"",
                                 Path(path).replace_extension(".npy").string(), path.string()));
  const NpyHeader header = parse_npy_header(file, path.string());
  const bool is_float = header.descr == "<f4", is_double = header.descr == "<f8";
  if ((!is_float && !is_double) || header.shape.size() != 1)
    throw user_error(fmt::format("{} is not a vector of float32 or float64", path.string()),
                     fmt::format("it has {} dimensions and elements \"{}\"", header.shape.size(), header.descr),
                     "write one: numpy.save(FILE, values.astype(numpy.float32)), with one number for each id");
  const auto size = static_cast<uint64_t>(header.shape[0]);
  const uint64_t bytes = file.size() - header.data_offset;
  if (size > bytes / (is_float ? sizeof(float) : sizeof(double)))
    throw damaged(fmt::format("{} is cut short", path.string()),
                  fmt::format("it has {} bytes for {} numbers", bytes, size));
  std::vector<float> values(size);
  if (size == 0) return values;
  if (is_float) {
    std::memcpy(values.data(), file.data() + header.data_offset, size * sizeof(float));
    return values;
  }
  std::vector<double> doubles(size);
  std::memcpy(doubles.data(), file.data() + header.data_offset, size * sizeof(double));
  std::transform(doubles.begin(), doubles.end(), values.begin(), as_float);
  return values;
}

void write_npy_vector(const Path& path, std::span<const float> values) {
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  std::string file = npy_header("<f4", shape);
  file.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  write_file_atomic(path, file);
}

}  // namespace hearth::formats
