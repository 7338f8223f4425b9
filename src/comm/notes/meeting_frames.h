// SPDX-License-Identifier: Apache-2.0
// What ranks that meet send each other (comm/meeting.h): frames of parts. The first is a rank's hello; rank 0 answers
// with a challenge, and the rank with a proof.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/meeting.h"
#include "comm/notes/frames.h"
#include "comm/socket.h"

namespace hearth::comm {

inline constexpr uint32_t kMeetingMagic = 0x54524548;  // "HERT"
inline constexpr size_t kLongestMeetingFrame = size_t{64} << 10;

inline std::string frame_of(std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string bytes(reinterpret_cast<const char*>(&kMeetingMagic), sizeof kMeetingMagic);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  return bytes += payload;
}

template <class... Parts>
bool say(const Socket& to, const Parts&... parts) {
  return to.send(frame_of(parts_as_bytes(parts...)));
}

// What another process has sent.
struct Heard {
  enum class Kind { kNothing, kFrame, kNoRank };  // kNoRank: this is not a rank of ours
  Kind kind = Kind::kNothing;
  std::vector<std::string> parts{};
};

// Takes the first frame off `received`.
inline Heard take_frame(std::string& received) {
  constexpr size_t kHead = 2 * sizeof(uint32_t);
  const size_t known = std::min(received.size(), sizeof kMeetingMagic);
  if (std::memcmp(received.data(), &kMeetingMagic, known) != 0) return {Heard::Kind::kNoRank};
  if (received.size() < kHead) return {};
  uint32_t size = 0;
  std::memcpy(&size, received.data() + sizeof kMeetingMagic, sizeof size);
  if (size > kLongestMeetingFrame) return {Heard::Kind::kNoRank};
  if (received.size() < kHead + size) return {};
  auto parts = find_parts(std::string_view(received).substr(kHead, size));
  received.erase(0, kHead + size);
  if (!parts || parts->empty()) return {Heard::Kind::kNoRank};
  return {Heard::Kind::kFrame, std::move(*parts)};
}

// nullopt for text that is no number.
inline std::optional<int64_t> number_of(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A rank's first words. Its proof covers them.
struct Hello {
  int64_t rank = 0, size = 0;
  std::string program, process, number;
};

inline std::optional<Hello> hello_in(const std::vector<std::string>& parts) {
  if (parts.size() != 6 || parts[0] != "hello") return std::nullopt;
  const std::optional<int64_t> rank = number_of(parts[1]), size = number_of(parts[2]);
  if (!rank || !size) return std::nullopt;
  return Hello{*rank, *size, parts[3], parts[4], parts[5]};
}

// `role`: who makes the proof. Neither side's proof is one of the other's.
inline std::string proof_by(std::string_view role, const std::string& secret, const Hello& hello,
                            std::string_view challenge) {
  return proof_of(secret, parts_as_bytes(role, std::to_string(hello.rank), std::to_string(hello.size), hello.program,
                                         hello.process, hello.number, challenge));
}

}  // namespace hearth::comm
