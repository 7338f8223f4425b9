// SPDX-License-Identifier: Apache-2.0
// Parts of a message: each is its length in 8 bytes, and its bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::comm {

void put_part(std::string& to, std::string_view part);

template <class... Parts>
std::string parts_as_bytes(const Parts&... parts) {
  std::string bytes;
  (put_part(bytes, parts), ...);
  return bytes;
}

// The parts that put_part() wrote; nullopt for other bytes.
std::optional<std::vector<std::string>> find_parts(std::string_view bytes);
// The same for a message from a rank that has been met. Throws an Error (kBug) for other bytes.
std::vector<std::string> parts_of(std::string_view bytes);

}  // namespace hearth::comm
