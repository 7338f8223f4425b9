// SPDX-License-Identifier: Apache-2.0
#include "s3/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace hearth::s3 {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string hmac(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
       bytes.size(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace

std::string percent_encoded(std::string_view text, bool is_path) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~").find(c) != std::string_view::npos || (is_path && c == '/');
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(c);
    if (is_plain)
      encoded += c;
    else
      encoded += {'%', kDigits[value >> 4], kDigits[value & 15]};
  }
  return encoded;
}

void sign(Request& request, const Credentials& credentials, const std::string& time) {
  const std::string payload = hex(sha256(request.body)), day = time.substr(0, 8);
  request.headers["x-amz-date"] = time;
  request.headers["x-amz-content-sha256"] = payload;
  if (!credentials.session_token.empty()) request.headers["x-amz-security-token"] = credentials.session_token;

  std::string canonical = request.method + "\n" + request.path + "\n" + request.query + "\n", names;
  for (const auto& [name, value] : request.headers) {
    canonical += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  canonical += "\n" + names + "\n" + payload;
  const std::string scope = day + "/" + credentials.region + "/s3/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + hex(sha256(canonical));
  const std::string key =
      hmac(hmac(hmac(hmac("AWS4" + credentials.secret_key, day), credentials.region), "s3"), "aws4_request");
  request.headers["authorization"] = "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope +
                                     ", SignedHeaders=" + names + ", Signature=" + hex(hmac(key, to_sign));
}

}  // namespace hearth::s3
