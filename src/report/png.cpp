#include "report/png.h"

#include <zlib.h>

#include "base/error.h"

namespace hearth::report {
namespace {

std::string big_endian(uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

// Length, type, data, and the CRC of type and data.
std::string chunk(const std::string& type, const std::string& data) {
  const std::string checked = type + data;
  const uint64_t crc = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(data.size()) + checked + big_endian(crc);
}

std::string compressed(const std::string& data) {
  uLongf size = ::compressBound(data.size());
  std::string result(size, '\0');
  const int error = ::compress(reinterpret_cast<Bytef*>(result.data()), &size,
                               reinterpret_cast<const Bytef*>(data.data()), data.size());
  HEARTH_CHECK(error == Z_OK, "zlib says {}", error);
  result.resize(size);
  return result;
}

}  // namespace

std::string gray_png(std::span<const uint8_t> pixels, int64_t width, int64_t height) {
  HEARTH_CHECK(width > 0 && height > 0 && static_cast<int64_t>(pixels.size()) == width * height);
  std::string rows;
  for (int64_t y = 0; y < height; ++y) {
    rows += '\0';  // filter type 0: plain pixels
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * width, static_cast<size_t>(width));
  }
  const std::string depth_8_gray("\x08\x00\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR",
               big_endian(static_cast<uint64_t>(width)) + big_endian(static_cast<uint64_t>(height)) + depth_8_gray) +
         chunk("IDAT", compressed(rows)) + chunk("IEND", {});
}

}  // namespace hearth::report
