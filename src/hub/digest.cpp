#include "hub/digest.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <vector>

namespace hearth::hub {
namespace {

constexpr size_t kBlock = 64;
constexpr int64_t kPieceBytes = 4 << 20;

constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t word_at(const std::byte* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, 4);
  return __builtin_bswap32(value);
}

void mix(std::array<uint32_t, 8>& state, const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = word_at(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += mixed[i];
}

void mix(std::array<uint32_t, 5>& state, const std::byte* block) {
  std::array<uint32_t, 80> w;
  for (size_t i = 0; i < 16; ++i) w[i] = word_at(block + 4 * i);
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t f = i < 20   ? (b & c) | (~b & d)
                       : i < 40 ? b ^ c ^ d
                       : i < 60 ? (b & c) | (b & d) | (c & d)
                                : b ^ c ^ d;
    const uint32_t k = i < 20 ? 0x5a827999U : i < 40 ? 0x6ed9eba1U : i < 60 ? 0x8f1bbcdcU : 0xca62c1d6U;
    const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const std::array<uint32_t, 5> mixed = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state[i] += mixed[i];
}

template <class State>
void add(State& state, std::array<std::byte, kBlock>& block, uint64_t& length, std::span<const std::byte> bytes) {
  size_t filled = length % kBlock;
  length += bytes.size();
  while (!bytes.empty()) {
    if (filled == 0 && bytes.size() >= kBlock) {
      mix(state, bytes.data());
      bytes = bytes.subspan(kBlock);
      continue;
    }
    const size_t taken = std::min(kBlock - filled, bytes.size());
    std::memcpy(block.data() + filled, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    filled = (filled + taken) % kBlock;
    if (filled == 0) mix(state, block.data());
  }
}

template <class State>
std::string end(State& state, std::array<std::byte, kBlock>& block, uint64_t length) {
  const uint64_t bits = __builtin_bswap64(length * 8);
  const std::array<std::byte, kBlock> padding = {std::byte{0x80}};
  add(state, block, length, std::span(padding).first(1 + (119 - length % kBlock) % kBlock));
  add(state, block, length, std::as_bytes(std::span(&bits, 1)));
  std::string hex;
  for (const uint32_t word : state) hex += fmt::format("{:08x}", word);
  return hex;
}

template <class Hash>
std::string hash_file(const File& file, int64_t size, Hash hash, std::atomic<int64_t>& done_bytes) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(size, kPieceBytes)));
  for (int64_t at = 0; at < size; at += kPieceBytes) {
    const std::span<std::byte> now = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, size - at)));
    file.read_at(at, now);
    hash.update(now);
    done_bytes += static_cast<int64_t>(now.size());
  }
  return hash.finish();
}

}  // namespace

void Sha256::update(std::span<const std::byte> bytes) { add(state_, block_, length_, bytes); }
std::string Sha256::finish() { return end(state_, block_, length_); }
void Sha1::update(std::span<const std::byte> bytes) { add(state_, block_, length_, bytes); }
std::string Sha1::finish() { return end(state_, block_, length_); }

Digest digest_of_file(const Path& path, DigestKind kind, std::atomic<int64_t>& done_bytes) {
  const File file = File::open_read(path);
  const int64_t size = file.size_bytes();
  if (kind == DigestKind::kSha256) return {kind, hash_file(file, size, Sha256(), done_bytes)};
  Sha1 sha1;
  const std::string header = fmt::format("blob {}", size);
  sha1.update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));  // with its zero
  return {kind, hash_file(file, size, sha1, done_bytes)};
}

}  // namespace hearth::hub
