// SPDX-License-Identifier: Apache-2.0
#include "comm/notes/frames.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace hearth::comm {

void put_part(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to += part;
}

std::optional<std::vector<std::string>> find_parts(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() - sizeof size < size) return std::nullopt;
    parts.emplace_back(bytes.substr(sizeof size, size));
    bytes.remove_prefix(sizeof size + size);
  }
  return parts;
}

std::vector<std::string> parts_of(std::string_view bytes) {
  std::optional<std::vector<std::string>> parts = find_parts(bytes);
  HEARTH_CHECK(parts.has_value(), "a message of {} bytes has no parts", bytes.size());
  return std::move(*parts);
}

}  // namespace hearth::comm
