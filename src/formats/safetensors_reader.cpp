// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "formats/item.h"
#include "formats/json_walk.h"
#include "formats/safetensors.h"
#include "formats/type_names.h"

namespace hearth::formats {
namespace {

constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// An entry of the header as it is written.
struct Entry {
  std::string name;
  std::optional<std::string> type;
  std::optional<std::vector<int64_t>> shape, range;
};

class HeaderReader {
 public:
  explicit HeaderReader(const std::string& origin) : origin_(origin) {}

  std::vector<Entry> run(std::string_view text) {
    walk_json(text, origin_, 3, [&](const JsonLeaf& leaf) { visit(leaf); });
    return std::move(entries_);
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw damaged(fmt::format("{}: not a safetensors file that can be read", origin_), why);
  }

 private:
  void visit(const JsonLeaf& leaf) {
    using Kind = JsonLeaf::Kind;
    const size_t depth = leaf.path.size();
    if (depth == 0) {
      if (leaf.kind != Kind::kObject) fail("its header is not an object");
      return;
    }
    if (leaf.path[0] == "__metadata__") {
      if (leaf.kind != (depth == 1 ? Kind::kObject : Kind::kText)) fail("__metadata__ is not a table of texts");
      return;
    }
    if (depth == 1) {
      if (leaf.kind != Kind::kObject) fail(fmt::format("{} is not an object", leaf.path[0]));
      entries_.push_back({leaf.path[0], {}, {}, {}});
      return;
    }
    Entry& entry = entries_.back();
    const std::string& key = leaf.path[1];
    if (key == "dtype" && leaf.kind == Kind::kText) {
      entry.type = leaf.text;
    } else if (key == "shape" || key == "data_offsets") {
      std::optional<std::vector<int64_t>>& list = key == "shape" ? entry.shape : entry.range;
      if (leaf.kind == Kind::kArray && !list)
        list.emplace();
      else if (leaf.kind == Kind::kInteger && list)
        list->push_back(leaf.integer);
      else
        fail(fmt::format("{} of {} is not a list of sizes", key, entry.name));
    } else {
      fail(fmt::format("{} of {} is not known or of another type", key, entry.name));
    }
  }

  const std::string& origin_;
  std::vector<Entry> entries_;
};

// The number of elements; nullopt if no file can have as many.
std::optional<int64_t> elements_of(const std::vector<int64_t>& shape) {
  if (static_cast<int64_t>(shape.size()) > kMaxTensorDimensions) return std::nullopt;
  int64_t product = 1;
  bool is_empty = false;
  for (const int64_t n : shape) {
    if (n == 0) is_empty = true;
    if (n > 0 && product > kMaxTensorElements / n) return std::nullopt;
    product *= std::max<int64_t>(n, 1);
  }
  return is_empty ? 0 : product;
}

// A tensor's bytes behind the header.
struct Range {
  int64_t begin, end;
  std::string name;
};

// Every byte behind the header is one tensor's, as the format demands and Hugging Face's library checks.
void require_whole(std::vector<Range> ranges, int64_t data_size, const HeaderReader& reader) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  const Range* before = nullptr;
  for (const Range& range : ranges) {
    const int64_t end = before == nullptr ? 0 : before->end;
    if (range.begin < end) reader.fail(fmt::format("{} and {} share bytes", before->name, range.name));
    if (range.begin > end)
      reader.fail(fmt::format("bytes {} to {}, before {}, are no tensor's", end, range.begin, range.name));
    before = &range;
  }
  const int64_t end = before == nullptr ? 0 : before->end;
  if (end != data_size) reader.fail(fmt::format("its last {} bytes are no tensor's", data_size - end));
}

}  // namespace

SafetensorsFile read_safetensors(const File& file, const std::string& origin) {
  HeaderReader reader(origin);
  const int64_t size = file.size_bytes();
  std::array<std::byte, 8> length_bytes{};
  if (size < 8) reader.fail("it is shorter than its length field");
  file.read_at(0, length_bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= static_cast<uint64_t>(length_bytes[i]) << (8 * i);
  if (length > static_cast<uint64_t>(std::min(size - 8, kMaxSafetensorsHeader))) {
    reader.fail(fmt::format("its header claims {} bytes; the file has {}, and {} are the most allowed", length, size,
                            kMaxSafetensorsHeader));
  }
  std::string text(length, '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text)));

  const int64_t data_at = 8 + static_cast<int64_t>(length), data_size = size - data_at;
  SafetensorsFile found;
  std::vector<Range> ranges;
  for (Entry& entry : reader.run(text)) {
    if (!entry.type || !entry.shape || !entry.range || entry.range->size() != 2)
      reader.fail(fmt::format("{} lacks dtype, shape or data_offsets", entry.name));
    const int64_t begin = entry.range->front(), end = entry.range->back();
    if (begin > end || end > data_size) {
      reader.fail(fmt::format("{} lies at bytes {} to {}, and {} are there", entry.name, begin, end, data_size));
    }
    ranges.push_back({begin, end, entry.name});
    const std::optional<DType> dtype = dtype_of_safetensors(*entry.type);
    if (!dtype) {
      found.others.push_back({entry.name, fmt::format("a tensor of {}", *entry.type)});
      continue;
    }
    const std::optional<int64_t> elements = elements_of(*entry.shape);
    if (!elements || *elements * dtype_size(*dtype) != end - begin) {
      reader.fail(fmt::format("{} has {} bytes, which is not {} of {}", entry.name, end - begin,
                              format_shape(*entry.shape), *entry.type));
    }
    found.tensors.push_back({{std::move(entry.name), *dtype, std::move(*entry.shape)}, data_at + begin, end - begin});
  }
  std::stable_sort(found.tensors.begin(), found.tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.offset < b.offset; });
  require_whole(std::move(ranges), data_size, reader);
  return found;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text, const std::string& origin) {
  if (static_cast<int64_t>(text.size()) > kMaxIndexBytes)
    throw damaged(fmt::format("{}: {} bytes are too many for an index", origin, text.size()));
  std::map<std::string, std::string> files;
  bool has_map = false;
  walk_json(text, origin, 8, [&](const JsonLeaf& leaf) {
    if (leaf.path.empty() || leaf.path[0] != "weight_map") return;
    const bool is_map = leaf.path.size() == 1;
    has_map = true;
    if (leaf.kind != (is_map ? JsonLeaf::Kind::kObject : JsonLeaf::Kind::kText))
      throw damaged(fmt::format("{}: weight_map is not a table of file names", origin));
    if (is_map) return;
    // A name with a folder in it could lead anywhere on the disk.
    if (leaf.text.empty() || leaf.text.find('/') != std::string_view::npos || leaf.text.starts_with("..") ||
        leaf.text.find('\0') != std::string_view::npos) {
      throw damaged(fmt::format("{}: {} is in \"{}\", which is not the name of a file in the same folder", origin,
                                leaf.path[1], leaf.text));
    }
    files.emplace(leaf.path[1], leaf.text);
  });
  if (!has_map) throw damaged(fmt::format("{}: has no weight_map", origin));
  return files;
}

}  // namespace hearth::formats
