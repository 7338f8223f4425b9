// SPDX-License-Identifier: Apache-2.0
#include "recordings/raster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/environment.h"

namespace hearth::recordings {
namespace {

// Width, height and the grey values of a file, by Python's own zlib and CRC.
std::string decoded(const std::string& file) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "x.png", file);
  const test::CommandResult python = test::run_command(
      fmt::format("python3 -c \"\n"
                  "import sys, struct, zlib\n"
                  "data = open(sys.argv[1], 'rb').read()\n"
                  "assert data[:8] == bytes([137]) + b'PNG' + bytes([13, 10, 26, 10])\n"
                  "at, chunks = 8, dict()\n"
                  "while at < len(data):\n"
                  "  size, kind = struct.unpack('>I4s', data[at:at + 8])\n"
                  "  body = data[at + 8:at + 8 + size]\n"
                  "  assert struct.unpack('>I', data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)\n"
                  "  chunks[kind.decode()] = body\n"
                  "  at += 12 + size\n"
                  "w, h, depth, color, *rest = struct.unpack('>IIBBBBB', chunks['IHDR'])\n"
                  "assert (depth, color, rest) == (8, 0, [0, 0, 0]) and list(chunks)[-1] == 'IEND'\n"
                  "rows = zlib.decompress(chunks['IDAT'])\n"
                  "assert len(rows) == h * (w + 1) and not any(rows[::w + 1])\n"
                  "print(w, h)\n"
                  "for y in range(h): print(*rows[y * (w + 1) + 1:(y + 1) * (w + 1)])\n"
                  "\" {}",
                  (folder / "x.png").string()));
  EXPECT_EQ(python.exit_code, 0) << python.output;
  return python.output;
}

TEST(Png, PythonReadsThePixelsBack) {
  const std::vector<uint8_t> pixels = {0, 1, 2, 253, 254, 255};
  EXPECT_EQ(decoded(gray_png(pixels, 3, 2)), "3 2\n0 1 2\n253 254 255\n");
}

TEST(Raster, RealAndGeneratedStandBesideEachOtherWithALineWhereTheModelTookOver) {
  const Raster real{2, {{0, 1}, {2, 0}, {0, 0}}}, generated{2, {{0, 1}, {2, 0}, {9, 0}}};
  const std::string text = decoded(raster_png(real, generated, 2));
  std::vector<std::vector<int>> rows;
  size_t begin = text.find('\n') + 1;
  EXPECT_EQ(text.substr(0, begin), "64 16\n");  // cells of 8 pixels, a gap of 16
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::vector<int> row;
    for (size_t at = begin; at < end; at = text.find(' ', at) == std::string::npos ? end : text.find(' ', at) + 1) {
      row.push_back(std::stoi(text.substr(at)));
      if (text.find(' ', at) > end) break;
    }
    rows.push_back(row);
  }
  ASSERT_EQ(rows.size(), 16u);
  const auto cell = [&](size_t panel, size_t bin, size_t neuron) {
    return rows[neuron * 8 + 4][panel * 40 + bin * 8 + 4];
  };
  for (const size_t panel : {0, 1}) {
    EXPECT_EQ(cell(panel, 0, 0), 255);
    EXPECT_LT(cell(panel, 0, 1), 255);
    EXPECT_LT(cell(panel, 1, 0), cell(panel, 0, 1)) << "two spikes are darker than one";
    EXPECT_EQ(rows[12][panel * 40 + 16], 128) << "the line";
  }
  EXPECT_EQ(cell(0, 2, 0), 255);
  EXPECT_EQ(cell(1, 2, 0), 0);
  // Nothing came after the context: the right half of it, alone.
  const std::string alone = decoded(raster_png({2, {{0, 1}, {2, 0}}}, generated, 2));
  std::string expected = "24 16\n";
  for (const auto& row : rows) {
    for (size_t x = 40; x < 64; ++x) expected += fmt::format("{}{}", row[x], x == 63 ? "\n" : " ");
  }
  EXPECT_EQ(alone, expected);
}

}  // namespace
}  // namespace hearth::recordings
