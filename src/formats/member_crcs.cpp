// SPDX-License-Identifier: Apache-2.0
#include "formats/member_crcs.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "formats/crc32.h"

namespace hearth::formats {
namespace {

constexpr int64_t kRestBytes = int64_t{1} << 20;

std::span<const std::byte> cut(std::span<const std::byte> bytes, int64_t from, int64_t count) {
  return bytes.subspan(static_cast<size_t>(from), static_cast<size_t>(count));
}

}  // namespace

void MemberCrcs::add(const std::string& file, const CrcRange& member, int64_t at, std::span<const std::byte> bytes) {
  const int64_t begin = std::max(at, member.offset);
  const int64_t end = std::min(at + std::ssize(bytes), member.offset + member.length);
  if (begin >= end) return;
  Member& found = members_[{file, member.offset, member.length}];
  found.range = member;
  found.add(begin, cut(bytes, begin - at, end - begin));
}

void MemberCrcs::Member::add(int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto after = parts.upper_bound(at);
    const int64_t seen_end = after == parts.begin() ? at : std::max(at, std::prev(after)->second.end);
    const int64_t new_end = after == parts.end() ? at + std::ssize(bytes) : after->first;
    const int64_t seen = std::min(seen_end - at, std::ssize(bytes));
    const int64_t count = std::min(new_end - at, std::ssize(bytes)) - seen;
    if (count > 0) add_new(at + seen, cut(bytes, seen, count));
    bytes = bytes.subspan(static_cast<size_t>(seen + count));
    at += seen + count;
  }
}

void MemberCrcs::Member::add_new(int64_t at, std::span<const std::byte> bytes) {
  const int64_t end = at + std::ssize(bytes);
  const auto after = parts.lower_bound(at);
  auto part = after == parts.begin() ? parts.end() : std::prev(after);
  if (part == parts.end() || part->second.end != at) part = parts.emplace(at, Part{at, 0}).first;
  part->second = {end, crc32(part->second.crc, bytes)};
  const auto next = std::next(part);
  if (next == parts.end() || next->first != end) return;
  part->second = {next->second.end, join_crc32(part->second.crc, next->second.crc, next->second.end - end)};
  parts.erase(next);
}

bool MemberCrcs::Member::is_whole() const {
  return parts.size() == 1 && parts.begin()->first == range.offset &&
         parts.begin()->second.end == range.offset + range.length;
}

void MemberCrcs::Member::read_rest(const File& file) {
  std::vector<std::byte> buffer;
  while (!is_whole()) {
    // The first gap: in front of the first part, or behind it.
    const auto first = parts.begin();
    const int64_t begin = first->first > range.offset ? range.offset : first->second.end;
    const auto next = parts.upper_bound(begin);
    const int64_t end = next == parts.end() ? range.offset + range.length : next->first;
    buffer.resize(static_cast<size_t>(std::min(end - begin, kRestBytes)));
    file.read_at(begin, buffer);
    add_new(begin, buffer);
  }
}

void MemberCrcs::check(const std::function<const File&(const std::string& file)>& open, bool read_rest) {
  for (auto& [place, member] : members_) {
    const std::string& file = std::get<0>(place);
    if (read_rest && !member.is_whole()) member.read_rest(open(file));
    if (!member.is_whole()) continue;
    const uint32_t found = member.parts.begin()->second.crc;
    if (found == member.range.crc) continue;
    throw damaged(fmt::format("{} is damaged, in bytes {} to {}", open(file).path().string(), member.range.offset,
                              member.range.offset + member.range.length),
                  fmt::format("CRC-32 {:08x}, expected {:08x}", found, member.range.crc),
                  "copy or download the file again");
  }
  members_.clear();
}

}  // namespace hearth::formats
