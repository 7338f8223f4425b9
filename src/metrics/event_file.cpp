// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/program.h"

namespace hearth::metrics {
namespace {

constexpr std::string_view kMark = ".tfevents.";  // in the name of a file of events
constexpr std::string_view kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> castagnoli_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = remainder;
  }
  return table;
}

// A checksum of bytes that contain a checksum would be weak, so that the format stores it changed.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class Number>
std::string fixed(Number number) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// Protocol Buffers: a number of 7 bits a byte, from the lowest on.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

enum class Wire { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };
std::string key(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
std::string bytes_field(int field, std::string_view value) {
  return key(field, Wire::kBytes) + varint(value.size()) + std::string(value);
}
std::string number_field(int field, uint64_t value) { return key(field, Wire::kVarint) + varint(value); }

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Step 0 is left out, as its default.
std::string event(double time, int64_t step, int field, std::string_view value) {
  return event_frame(key(1, Wire::kDouble) + fixed(time) +
                     (step == 0 ? "" : number_field(2, static_cast<uint64_t>(step))) + bytes_field(field, value));
}

// The names of the files have the second of their start. A clock may have stepped back since the last one.
int64_t next_second(const Path& folder, double time) {
  int64_t second = static_cast<int64_t>(time);
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string digits = name.substr(kPrefix.size(), 10);
    if (digits.size() == 10 && digits.find_first_not_of("0123456789") == std::string::npos)
      second = std::max<int64_t>(second, std::stoll(digits) + 1);
  }
  return second;
}

Path new_path(const Path& folder, double time) {
  make_folders(folder);
  return folder / fmt::format("{}{:010}.{}.{}.0", kPrefix, next_second(folder, time), host_name(), ::getpid());
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = castagnoli_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string event_frame(std::string_view data) {
  const std::string length = fixed(static_cast<uint64_t>(data.size()));
  return length + fixed(masked(crc32c(length))) + std::string(data) + fixed(masked(crc32c(data)));
}

bool has_event_files(const Path& folder) {
  if (!folder_exists(folder)) return false;
  const std::vector<std::string> names = list_folder(folder);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find(kMark) != std::string::npos; });
}

EventFile::EventFile(const Path& folder, double time) : file_(File::create(new_path(folder, time))) {
  file_.write(event(time, 0, 3, "brain.Event:2"));
}

// Summary: 1 value. Value: 1 tag, 2 simple_value.
void EventFile::scalars(double time, int64_t step, std::span<const ScalarEvent> scalars) {
  if (scalars.empty()) return;
  std::string summary;
  for (const ScalarEvent& scalar : scalars)
    summary +=
        bytes_field(1, bytes_field(1, scalar.tag) + key(2, Wire::kFloat) + fixed(static_cast<float>(scalar.value)));
  file_.write(event(time, step, 5, summary));
}

// Value: 1 tag, 8 tensor, 9 metadata. TensorProto: 1 dtype (7: string), 2 shape, 8 string_val. The shape's 2 is a
// dimension, and its 1 the size. SummaryMetadata: 1 plugin_data, whose 1 is the plugin's name.
void EventFile::text(double time, int64_t step, std::string_view tag, std::string_view text) {
  const std::string shape = bytes_field(2, number_field(1, 1));
  const std::string tensor = number_field(1, 7) + bytes_field(2, shape) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));
  const std::string value = bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata);
  file_.write(event(time, step, 5, bytes_field(1, value)));
}

// SessionLog: 1 status, where 1 is START.
void EventFile::restart(double time, int64_t step) { file_.write(event(time, step, 7, number_field(1, 1))); }

}  // namespace hearth::metrics
