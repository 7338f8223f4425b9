// SPDX-License-Identifier: Apache-2.0
#include "recordings/raster.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "formats/npy.h"

namespace hearth::recordings {
namespace {

constexpr int64_t kRasterWidth = 1200, kGap = 16;  // pixels, approximate
constexpr uint8_t kWhite = 255, kLine = 128;

uint8_t shade(uint8_t count) { return count == 0 ? kWhite : static_cast<uint8_t>(std::max(0, 160 - 50 * count)); }

struct Picture {
  int64_t width, height;
  std::vector<uint8_t> pixels;
  void fill(int64_t x, int64_t y, int64_t w, int64_t h, uint8_t value) {
    for (int64_t row = y; row < y + h; ++row) std::fill_n(pixels.begin() + row * width + x, w, value);
  }
};

void draw(const Raster& raster, int64_t left, int64_t cell, int64_t first_generated, Picture& picture) {
  for (int64_t bin = 0; bin < static_cast<int64_t>(raster.bins.size()); ++bin) {
    for (int64_t neuron = 0; neuron < raster.neurons; ++neuron)
      picture.fill(left + bin * cell, neuron * cell, cell, cell,
                   shade(raster.bins[static_cast<size_t>(bin)][static_cast<size_t>(neuron)]));
  }
  if (first_generated < static_cast<int64_t>(raster.bins.size()))
    picture.fill(left + first_generated * cell, 0, 1, picture.height, kLine);
}

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

Raster raster_of(const SpikeArray& array) {
  Raster raster;
  raster.neurons = array.shape.neurons;
  for (int64_t bin = 0; bin < array.shape.bins; ++bin) {
    const auto begin = array.counts.begin() + bin * array.shape.neurons;
    raster.bins.emplace_back(begin, begin + array.shape.neurons);
  }
  return raster;
}

std::string raster_png(const Raster& real, const Raster& generated, int64_t first_generated) {
  HEARTH_CHECK(real.neurons == generated.neurons && real.neurons > 0);
  const auto bins = static_cast<int64_t>(std::max(real.bins.size(), generated.bins.size()));
  HEARTH_CHECK(bins > 0);
  const int64_t cell = std::clamp<int64_t>(kRasterWidth / (2 * bins), 1, 8), panel = bins * cell;
  const bool both = static_cast<int64_t>(real.bins.size()) > first_generated;
  Picture picture{both ? 2 * panel + kGap : panel, real.neurons * cell, {}};
  picture.pixels.assign(static_cast<size_t>(picture.width * picture.height), kWhite);
  draw(generated, picture.width - panel, cell, first_generated, picture);
  if (both) {
    draw(real, 0, cell, first_generated, picture);
    picture.fill(panel + kGap / 2, 0, 1, picture.height, 0);
  }
  return gray_png(picture.pixels, picture.width, picture.height);
}

void write_generated(const Path& out, const Path& picture, const ArrayPrompt& prompt, const Raster& whole) {
  const int64_t first = prompt.context.shape.bins, bins = static_cast<int64_t>(whole.bins.size()) - first;
  if (!out.empty()) {
    const int64_t shape[] = {whole.neurons, bins};
    std::string content = formats::npy_header("|u1", shape);
    for (int64_t neuron = 0; neuron < whole.neurons; ++neuron) {
      for (int64_t bin = first; bin < first + bins; ++bin)
        content += static_cast<char>(whole.bins[static_cast<size_t>(bin)][static_cast<size_t>(neuron)]);
    }
    write_file_atomic(out, content);
  }
  if (picture.empty()) return;
  Raster real = raster_of(prompt.context);
  const Raster after = raster_of(prompt.after);
  const auto shown = static_cast<std::ptrdiff_t>(std::min<size_t>(after.bins.size(), static_cast<size_t>(bins)));
  real.bins.insert(real.bins.end(), after.bins.begin(), after.bins.begin() + shown);
  write_file_atomic(picture, raster_png(real, whole, first));
}

}  // namespace hearth::recordings
