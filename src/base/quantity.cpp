// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace hearth {

namespace {

std::string bytes_text(int64_t bytes, int more_decimals) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    if (value < 1023.95) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, (value < 9.995 ? 2 : 1) + more_decimals, unit);
}

}  // namespace

std::string format_bytes(int64_t bytes) { return bytes_text(bytes, 0); }

std::pair<std::string, std::string> format_bytes_apart(int64_t a, int64_t b) {
  for (int more_decimals = 0; more_decimals < 4; ++more_decimals) {
    std::pair texts(bytes_text(a, more_decimals), bytes_text(b, more_decimals));
    if (a == b || texts.first != texts.second) return texts;
  }
  return {fmt::format("{} B", a), fmt::format("{} B", b)};
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"kB", 1e3}, {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  if (unit.empty() && value == 0) return 0;
  for (const auto& [name, size] : kUnits) {
    const double bytes = value * size;
    if (unit == name && bytes >= 0 && bytes < 0x1p63) return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string counted(int64_t count, std::string_view noun) {
  const char* plural = noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural);
}

std::string format_count(double count) {
  if (std::abs(count) < 1000) return fmt::format("{:.0f}", count);
  const char* unit = "";
  for (const char* next : {"k", "M", "B", "T"}) {
    if (std::abs(count) < 999.5) break;
    count /= 1000;
    unit = next;
  }
  const int decimals = std::abs(count) < 10 ? 2 : std::abs(count) < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", count, decimals, unit);
}

std::string format_flops(double flops) {
  // As format_count, with G for 1e9: FLOP rates are never given in "B".
  std::string text = format_count(flops);
  if (text.ends_with('B')) text.back() = 'G';
  return text.find(' ') == std::string::npos ? text + " FLOP" : text + "FLOP";
}

std::string format_duration(double seconds) {
  if (seconds >= 5e-7 && seconds < 0.0005) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds >= 0.0005 && seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds >= 0.0995 && seconds < 0.995) return fmt::format("{:.2g} s", seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {:02} h", s / 86400, s / 3600 % 24);
}

}  // namespace hearth
