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
void add_fixed(std::string& bytes, Number number) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Protocol Buffers: a number of 7 bits a byte, from the lowest on.
void add_varint(std::string& bytes, uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

enum class Wire { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };
void add_key(std::string& bytes, int field, Wire wire) {
  add_varint(bytes, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
void add_bytes(std::string& bytes, int field, std::string_view value) {
  add_key(bytes, field, Wire::kBytes);
  add_varint(bytes, value.size());
  bytes += value;
}
void add_number(std::string& bytes, int field, uint64_t value) {
  add_key(bytes, field, Wire::kVarint);
  add_varint(bytes, value);
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Step 0 is left out, as its default.
std::string event(double time, int64_t step, int field, std::string_view value) {
  std::string bytes;
  add_key(bytes, 1, Wire::kDouble);
  add_fixed(bytes, time);
  if (step != 0) add_number(bytes, 2, static_cast<uint64_t>(step));
  add_bytes(bytes, field, value);
  return event_frame(bytes);
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
  std::string frame;
  add_fixed(frame, static_cast<uint64_t>(data.size()));
  add_fixed(frame, masked(crc32c(frame)));
  frame += data;
  add_fixed(frame, masked(crc32c(data)));
  return frame;
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
void EventFile::scalars(double time, int64_t step, std::span<const Scalar> scalars) {
  if (scalars.empty()) return;
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    add_bytes(value, 1, scalar.tag);
    add_key(value, 2, Wire::kFloat);
    add_fixed(value, static_cast<float>(scalar.value));
    add_bytes(summary, 1, value);
  }
  file_.write(event(time, step, 5, summary));
}

// Value: 1 tag, 8 tensor, 9 metadata. TensorProto: 1 dtype (7: string), 2 shape, 8 string_val. The shape's 2 is a
// dimension, and its 1 the size. SummaryMetadata: 1 plugin_data, whose 1 is the plugin's name.
void EventFile::text(double time, int64_t step, std::string_view tag, std::string_view text) {
  std::string dimension, shape, tensor, plugin, metadata, value, summary;
  add_number(dimension, 1, 1);
  add_bytes(shape, 2, dimension);
  add_number(tensor, 1, 7);
  add_bytes(tensor, 2, shape);
  add_bytes(tensor, 8, text);
  add_bytes(plugin, 1, "text");
  add_bytes(metadata, 1, plugin);
  add_bytes(value, 1, tag);
  add_bytes(value, 8, tensor);
  add_bytes(value, 9, metadata);
  add_bytes(summary, 1, value);
  file_.write(event(time, step, 5, summary));
}

// SessionLog: 1 status, where 1 is START.
void EventFile::restart(double time, int64_t step) {
  std::string session;
  add_number(session, 1, 1);
  file_.write(event(time, step, 7, session));
}

}  // namespace hearth::metrics
