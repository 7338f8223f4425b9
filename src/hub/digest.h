// The hashes by which the Hub knows files: SHA-256 (LFS files) and git's SHA-1 of a blob (all others). FIPS 180-4.
// Our own checksums are XXH3 (base/hash.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"

namespace hearth::hub {

enum class DigestKind { kSha256, kGitBlob };

struct Digest {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;  // lower case: 64 digits, or 40

  bool operator==(const Digest&) const = default;
};

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  std::string finish();  // the last call

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};
  uint64_t length_ = 0;
};

class Sha1 {
 public:
  void update(std::span<const std::byte> bytes);
  std::string finish();  // the last call

 private:
  std::array<uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<std::byte, 64> block_{};
  uint64_t length_ = 0;
};

// Reads the whole file. `done_bytes` grows while it does.
Digest digest_of_file(const Path& path, DigestKind kind, std::atomic<int64_t>& done_bytes);

}  // namespace hearth::hub
