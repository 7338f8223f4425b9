// SPDX-License-Identifier: Apache-2.0
// Numbers for people, and the integer arithmetic of sizes.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {

constexpr int64_t div_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t multiple) { return div_ceil(a, multiple) * multiple; }

std::string format_bytes(int64_t bytes);  // three digits or more: "512 B", "1.50 KiB", "11.2 MiB", "153.2 GiB"
// Texts of two amounts that a reader compares: different amounts get different texts, with more digits if necessary.
std::pair<std::string, std::string> format_bytes_apart(int64_t a, int64_t b);
// "48 GiB", "1.5GB", "1024 B": a number and B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB or TB (of 1000). Empty
// if `text` is not of this form, negative or beyond int64_t. Only 0 needs no unit: who writes 48 does not mean 48
// bytes.
std::optional<int64_t> parse_bytes(std::string_view text);
// A number of things: "1 file", "20 files". Pass the noun in the singular; its plural gets an s, or es after ch.
std::string counted(int64_t count, std::string_view noun);
std::string format_count(double count);       // "999", "1.25 k", "56.1 M", "8.03 B"
std::string format_flops(double flops);       // "172 kFLOP", "29.1 GFLOP"
std::string format_duration(double seconds);  // "13 ms", "0.8 s", "42 s", "3 min 05 s", "2 h 07 min", "3 d 04 h"

// Now, in UTC, as strftime's `format` says: "2026-11-27T10:31:02Z". Inline: shared objects that are loaded on first use
// have no code of this library.
inline std::string utc_now(const char* format = "%Y-%m-%dT%H:%M:%SZ") {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace hearth
