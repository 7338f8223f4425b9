// SPDX-License-Identifier: Apache-2.0
#include "recordings/patch_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::recordings {
namespace {

constexpr std::string_view kMagic = "HRTHPTCH";
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version, neurons, bins, vocab_size;
  uint64_t references, others;
};
static_assert(sizeof(Header) == 40);

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string_view text_of(std::span<const uint8_t> patch) {
  return {reinterpret_cast<const char*>(patch.data()), patch.size()};
}

}  // namespace

std::string patch_file(const PatchVocabulary& v) {
  const auto cells = static_cast<size_t>(v.shape.cells());
  HEARTH_CHECK(v.others.size() == v.other_ids.size() * cells && v.references.size() % cells == 0);
  Header header{};
  std::copy(kMagic.begin(), kMagic.end(), header.magic);
  header.version = kVersion;
  header.neurons = static_cast<uint32_t>(v.shape.neurons);
  header.bins = static_cast<uint32_t>(v.shape.bins);
  header.vocab_size = static_cast<uint32_t>(v.vocab_size);
  header.references = v.references.size() / cells;
  header.others = v.other_ids.size();
  std::string file(bytes_of(header));
  file += v.references;
  file += v.others;
  file.append(reinterpret_cast<const char*>(v.other_ids.data()), v.other_ids.size() * sizeof(uint32_t));
  const uint64_t checksum = xxh3_64(file);
  file += bytes_of(checksum);
  return file;
}

bool looks_like_patch_file(std::string_view content) { return content.starts_with(kMagic); }

PatchFile::PatchFile(std::string content, const std::string& origin) : content_(std::move(content)) {
  const auto fail = [&](std::string why) -> Error {
    return damaged(fmt::format("patch tokenizer {} is damaged", origin), std::move(why),
                   "restore the file from a copy, or make it again");
  };
  Header header{};
  uint64_t checksum = 0;
  if (content_.size() < sizeof header + sizeof checksum) throw fail("it is cut short");
  std::memcpy(&header, content_.data(), sizeof header);
  if (header.version != kVersion)
    throw user_error(fmt::format("patch tokenizer {} has version {}", origin, header.version),
                     fmt::format("this hearth reads version {}", kVersion), "use the hearth that wrote it");
  std::memcpy(&checksum, content_.data() + content_.size() - sizeof checksum, sizeof checksum);
  const auto checked = std::string_view(content_).substr(0, content_.size() - sizeof checksum);
  if (xxh3_64(checked) != checksum) throw fail("its checksum is wrong");
  const uint64_t cells = uint64_t{header.neurons} * header.bins;
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max() / 2;
  if (cells == 0 || cells > kMostPatchCells || header.references == 0 || header.references >= header.vocab_size ||
      header.vocab_size > kMost || header.references > kMost || header.others > kMost - header.references ||
      checked.size() != sizeof header + header.references * cells + header.others * (cells + sizeof(uint32_t)))
    throw fail("its header contradicts itself");
  shape_ = {header.neurons, header.bins};
  vocab_size_ = header.vocab_size;
  num_references_ = static_cast<int64_t>(header.references);
  num_others_ = static_cast<int64_t>(header.others);
  fill_table(origin);
}

void PatchFile::fill_table(const std::string& origin) {
  table_.assign(std::bit_ceil(static_cast<size_t>(num_patches()) * 2), 0);
  for (int64_t i = 0; i < num_patches(); ++i) {
    size_t at = xxh3_64(text_of(patch(i))) & (table_.size() - 1);
    for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
      if (std::ranges::equal(patch(table_[at] - 1), patch(i)))
        throw damaged(fmt::format("patch tokenizer {} is damaged", origin), "a patch appears twice", "make it again");
    }
    table_[at] = static_cast<uint32_t>(i + 1);
  }
  // Every id that another patch refers to must have a reference.
  for (int64_t i = num_references_; i < num_patches(); ++i) {
    if (id_of(patch(i)) >= num_references_)
      throw damaged(fmt::format("patch tokenizer {} is damaged", origin), "a patch has an id without a reference",
                    "make it again");
  }
}

std::span<const uint8_t> PatchFile::patch(int64_t index) const {
  const auto cells = static_cast<size_t>(shape_.cells());
  const auto* data = reinterpret_cast<const uint8_t*>(content_.data()) + sizeof(Header);
  return {data + static_cast<size_t>(index) * cells, cells};
}

uint32_t PatchFile::id_of(std::span<const uint8_t> wanted) const {
  for (size_t at = xxh3_64(text_of(wanted)) & (table_.size() - 1); table_[at] != 0;
       at = (at + 1) & (table_.size() - 1)) {
    const int64_t index = table_[at] - 1;
    if (!std::ranges::equal(patch(index), wanted)) continue;
    if (index < num_references_) return static_cast<uint32_t>(index);
    uint32_t id = 0;
    const uint8_t* ids = patch(num_patches()).data();
    std::memcpy(&id, ids + static_cast<size_t>(index - num_references_) * sizeof id, sizeof id);
    return id;
  }
  return 0;
}

std::span<const uint8_t> PatchFile::patch_of(uint32_t id) const {
  return id < num_references_ ? patch(id) : std::span<const uint8_t>();
}

std::string PatchFile::content_hash() const { return xxh3_128_hex(content_); }

}  // namespace hearth::recordings
