#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"

namespace hearth::hub {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;

// libcrypto's hash. It uses the processor's instructions for SHA, where there are any.
class Hash {
 public:
  explicit Hash(DigestKind kind) {
    // The host's openssl.cnf may name modules that a copied program cannot load: it is not read.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    context_.reset(EVP_MD_CTX_new());
    const EVP_MD* type = kind == DigestKind::kSha256 ? EVP_sha256() : EVP_sha1();
    HEARTH_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), type, nullptr) == 1, "libcrypto's hash");
  }

  void update(std::span<const std::byte> bytes) {
    HEARTH_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "libcrypto's hash");
  }

  // The last call.
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
    unsigned size = 0;
    HEARTH_CHECK(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) == 1, "libcrypto's hash");
    std::string hex;
    for (const unsigned char byte : std::span(bytes).first(size)) hex += fmt::format("{:02x}", byte);
    return hex;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

Digest digest_of_file(const Path& path, DigestKind kind, std::atomic<int64_t>& done_bytes) {
  const File file = File::open_read(path);
  const int64_t size = file.size_bytes();
  Hash hash(kind);
  if (kind == DigestKind::kGitBlob) {
    const std::string header = fmt::format("blob {}", size);
    hash.update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));  // with its zero
  }
  std::vector<std::byte> piece(static_cast<size_t>(std::min(size, kPieceBytes)));
  for (int64_t at = 0; at < size; at += kPieceBytes) {
    const std::span<std::byte> now = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, size - at)));
    file.read_at(at, now);
    hash.update(now);
    done_bytes += static_cast<int64_t>(now.size());
  }
  return {kind, hash.finish()};
}

}  // namespace hearth::hub
