// SPDX-License-Identifier: Apache-2.0
// Checksums of all stored files: XXH3 (xxhash.com), 64 bits for blocks, 128 bits for identities.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;  // xxhash.h

namespace hearth {

uint64_t xxh3_64(std::span<const std::byte> bytes);
uint64_t xxh3_64(std::string_view bytes);

struct Hash128 {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Hash128&) const = default;
};
Hash128 xxh3_128(std::string_view bytes);

// 32 lower-case hexadecimal digits, high half first, as `xxhsum -H2` prints it.
std::string to_hex(const Hash128& hash);
std::string xxh3_128_hex(std::span<const std::byte> bytes);
std::string xxh3_128_hex(std::string_view bytes);

// 16 lower-case hexadecimal digits, and back. from_hex64 throws user_error on anything else.
std::string to_hex64(uint64_t value);
uint64_t from_hex64(std::string_view text);

// The same hashes over data that arrives in pieces.
class StreamingHash {
 public:
  StreamingHash();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes);
  uint64_t digest_64() const;
  std::string digest_128_hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace hearth
