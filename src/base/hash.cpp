// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <charconv>

#include "base/error.h"

namespace hearth {

namespace {
Hash128 ours(XXH128_hash_t h) { return {h.high64, h.low64}; }
}  // namespace

uint64_t xxh3_64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t xxh3_64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Hash128 xxh3_128(std::string_view bytes) { return ours(XXH3_128bits(bytes.data(), bytes.size())); }

std::string to_hex(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }
std::string xxh3_128_hex(std::span<const std::byte> bytes) {
  return to_hex(ours(XXH3_128bits(bytes.data(), bytes.size())));
}
std::string xxh3_128_hex(std::string_view bytes) { return to_hex(xxh3_128(bytes)); }

std::string to_hex64(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t from_hex64(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size())
    throw user_error(fmt::format("'{}' is not a checksum", text), "16 hexadecimal digits are expected");
  return value;
}

// XXH3_state_t must be 64-byte aligned; the library's own allocator aligns it.
StreamingHash::StreamingHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
void StreamingHash::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void StreamingHash::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}
void StreamingHash::update(std::string_view bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
// Both digests share one internal state (xxhash.h: XXH3_64bits_update and XXH3_128bits_update are the same function).
uint64_t StreamingHash::digest_64() const { return XXH3_64bits_digest(state_.get()); }
std::string StreamingHash::digest_128_hex() const { return to_hex(ours(XXH3_128bits_digest(state_.get()))); }

}  // namespace hearth
