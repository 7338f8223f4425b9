// SPDX-License-Identifier: Apache-2.0
// The secret of a start, and proofs that somebody knows it: meeting.h.
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "comm/meeting.h"

namespace hearth::comm {

namespace {

std::string hex_of(const unsigned char* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

constexpr std::string_view kPrefix = ".start-";
constexpr size_t kSecretBytes = 32;

// The outermost folder on the way to `folder` that does not exist; empty: it exists.
Path first_missing(Path folder) {
  Path missing;
  while (!folder.empty() && !path_exists(folder)) {
    missing = folder;
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return missing;
}

}  // namespace

std::string random_hex(size_t size) {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t got = ::getrandom(bytes.data() + done, size - done, 0);
    if (got < 0 && errno != EINTR) throw system_error("cannot draw a random number", errno);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return hex_of(reinterpret_cast<const unsigned char*>(bytes.data()), size);
}

std::string proof_of(std::string_view secret, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  const unsigned char* const made =
      ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
  HEARTH_CHECK(made != nullptr, "HMAC-SHA256 fails");
  return hex_of(bytes.data(), size);
}

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

StartSecret::StartSecret(const Path& folder)
    : file_(absolute_path(folder) / (std::string(kPrefix) + random_hex(8))), made_(first_missing(file_.parent_path())) {
  make_folders(file_.parent_path());
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw system_error(fmt::format("cannot write {}", file_.string()), errno);
  const std::string secret = random_hex(kSecretBytes);
  const ssize_t written = ::write(fd, secret.data(), secret.size());
  const int error = written < 0 ? errno : written == std::ssize(secret) ? 0 : ENOSPC;
  ::fsync(fd);
  ::close(fd);
  if (error == 0) return;
  ::unlink(file_.c_str());
  throw system_error(fmt::format("cannot write {}", file_.string()), error);
}

StartSecret::~StartSecret() {
  ::unlink(file_.c_str());
  std::error_code ignored;
  for (Path folder = file_.parent_path(); !made_.empty(); folder = folder.parent_path()) {
    if (!std::filesystem::remove(folder, ignored) || ignored || folder == made_) break;  // others use it by now
  }
}

std::string read_start_secret(const Path& file) {
  // A stranger may name a pipe, which must not keep this process waiting.
  const int fd = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw system_error(fmt::format("cannot read {}", file.string()), errno);
  struct stat facts {};
  ::fstat(fd, &facts);
  std::array<char, 2 * kSecretBytes + 1> bytes{};
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  const int error = errno;
  ::close(fd);
  if (got < 0) throw system_error(fmt::format("cannot read {}", file.string()), error);
  // To a network file system root may be somebody else.
  const bool is_ours = S_ISREG(facts.st_mode) && (facts.st_uid == ::geteuid() || ::geteuid() == 0) &&
                       (facts.st_mode & 077) == 0 && file.filename().string().starts_with(kPrefix) &&
                       got == 2 * kSecretBytes;
  if (!is_ours) throw user_error(fmt::format("{} is not the secret of a start", file.string()));
  return {bytes.data(), static_cast<size_t>(got)};
}

}  // namespace hearth::comm
