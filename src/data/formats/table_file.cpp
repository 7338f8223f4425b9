// SPDX-License-Identifier: Apache-2.0
#include "data/formats/table_file.h"

#include <array>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {
namespace {

constexpr std::string_view kTableMagic = "HRTHTABL";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = 40, kEntryBytes = 16, kChecksumBytes = 8;
constexpr uint32_t kMaxArrays = 64;

Error broken(const Path& path, std::string why) {
  return damaged(fmt::format("table {} is damaged", path.string()), std::move(why), "delete it: it is made again");
}

template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T get(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

size_t header_bytes(size_t num_arrays) { return kFixedBytes + num_arrays * kEntryBytes + kChecksumBytes; }

std::string header_of(std::string_view key, const TableArrays& table) {
  uint64_t size = header_bytes(table.size());
  for (const TableArray& array : table) size += padded(array.bytes().size());
  const Hash128 hash = xxh3_128(key);
  std::string header(kTableMagic);
  put(header, kVersion);
  put(header, static_cast<uint32_t>(table.size()));
  put(header, hash.high);
  put(header, hash.low);
  put(header, size);
  for (const TableArray& array : table) {
    put(header, static_cast<uint64_t>(array.bytes().size()));
    put(header, xxh3_64(array.bytes()));
  }
  put(header, xxh3_64(header));
  return header;
}

// Two processes, even on two hosts, may write the same table at once: each uses its own name.
Path temporary_name(const Path& path) {
  std::random_device random;
  Path temporary = path;
  temporary += fmt::format(".{:08x}{:08x}.tmp", random(), random());
  return temporary;
}

}  // namespace

TableArrays read_table(const Path& path, std::string_view key) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < header_bytes(0) || std::memcmp(bytes.data(), kTableMagic.data(), kTableMagic.size()) != 0)
    throw broken(path, "it does not begin like a table");
  const auto version = get<uint32_t>(bytes, 8), count = get<uint32_t>(bytes, 12);
  if (version != kVersion || count > kMaxArrays || bytes.size() < header_bytes(count))
    throw broken(path, fmt::format("version {}, {} arrays", version, count));
  const size_t header = header_bytes(count);
  if (xxh3_64(bytes.first(header - kChecksumBytes)) != get<uint64_t>(bytes, header - kChecksumBytes))
    throw broken(path, "its header has another checksum");
  const Hash128 hash = xxh3_128(key);
  if (get<uint64_t>(bytes, 16) != hash.high || get<uint64_t>(bytes, 24) != hash.low)
    throw broken(path, "it was made from other data");
  if (get<uint64_t>(bytes, 32) != bytes.size()) throw broken(path, "it is cut short");
  TableArrays table;
  uint64_t at = header;
  for (uint32_t i = 0; i < count; ++i) {
    const auto size = get<uint64_t>(bytes, kFixedBytes + i * kEntryBytes);
    if (size > bytes.size() - at || padded(size) > bytes.size() - at)
      throw broken(path, fmt::format("array {} is outside the file", i));
    table.emplace_back(file, bytes.subspan(at, size));
    if (xxh3_64(table.back().bytes()) != get<uint64_t>(bytes, kFixedBytes + i * kEntryBytes + 8))
      throw broken(path, fmt::format("array {} has another checksum", i));
    at += padded(size);
  }
  return table;
}

void write_table(const Path& path, std::string_view key, const TableArrays& table) {
  const Path temporary = temporary_name(path);
  try {
    File file = File::create(temporary);
    file.write(header_of(key, table));
    for (const TableArray& array : table) {
      constexpr std::array<std::byte, 8> kZeros{};
      file.write(array.bytes());
      file.write(std::span(kZeros).first(padded(array.bytes().size()) - array.bytes().size()));
    }
    file.sync();
    file.close();
    rename_path(temporary, path);
  } catch (const Error&) {
    try {
      remove_file(temporary);
    } catch (const Error&) {  // the first error is reported
    }
    throw;
  }
}

void keep_table(const Path& folder, std::string_view name, std::string_view key, TableNote& note,
                const std::function<TableArrays()>& build, const std::function<void(TableArrays)>& read) {
  const Path path = folder / fmt::format("{}-{}.table", name, to_hex(xxh3_128(key)));
  if (path_exists(path)) {
    try {
      read(read_table(path, key));
      return;
    } catch (const Error& e) {
      if (e.code() == ExitCode::kBug) throw;
      note.damage = e.message();
    }
  }
  const TableArrays table = build();
  note.built = true;
  try {
    make_folders(folder);
    write_table(path, key, table);
  } catch (const Error& e) {
    note.unkept = e.message();
  }
  read(table);
}

}  // namespace hearth::data
