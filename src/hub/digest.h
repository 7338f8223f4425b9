// SPDX-License-Identifier: Apache-2.0
// The hashes by which the Hub knows files: SHA-256 (LFS files) and git's SHA-1 of a blob (all others). Our own
// checksums are XXH3 (base/hash.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace hearth::hub {

enum class DigestKind { kSha256, kGitBlob };

struct Digest {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;  // lower case: 64 digits, or 40

  bool operator==(const Digest&) const = default;
};

// Reads the whole file. `done_bytes` grows while it reads. Several threads may call it at once.
Digest digest_of_file(const Path& path, DigestKind kind, std::atomic<int64_t>& done_bytes);

}  // namespace hearth::hub
