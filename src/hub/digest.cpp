// SPDX-License-Identifier: Apache-2.0
#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <span>

#include "base/error.h"

namespace hearth::hub {

Digest digest_of_file(const Path& path, DigestKind kind, std::atomic<int64_t>& done_bytes) {
  const File file = File::open_read(path);
  // The host's openssl.cnf may name modules that a copied program cannot load: it is not read.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  const auto require = [](bool works) { HEARTH_CHECK(works, "libcrypto's hash"); };
  // libcrypto uses the processor's instructions for SHA, where there are any.
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const EVP_MD* type = kind == DigestKind::kSha256 ? EVP_sha256() : EVP_sha1();
  require(hash != nullptr && EVP_DigestInit_ex(hash.get(), type, nullptr) == 1);
  const auto update = [&](const void* bytes, size_t size) { require(EVP_DigestUpdate(hash.get(), bytes, size) == 1); };
  if (kind == DigestKind::kGitBlob) {
    const std::string header = fmt::format("blob {}", file.size_bytes());
    update(header.c_str(), header.size() + 1);  // with its zero
  }
  read_in_portions(file, [&](std::span<const std::byte> portion) {
    update(portion.data(), portion.size());
    done_bytes += std::ssize(portion);
  });
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  require(EVP_DigestFinal_ex(hash.get(), bytes.data(), &size) == 1);
  return {kind, fmt::format("{:02x}", fmt::join(std::span(bytes).first(size), ""))};
}

}  // namespace hearth::hub
