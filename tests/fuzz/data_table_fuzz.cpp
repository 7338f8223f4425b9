// SPDX-License-Identifier: Apache-2.0
// A table of sequences, as it is and with every checksum made right: no part points outside of the tokens.
#include <cstring>

#include "base/hash.h"
#include "data/formats/table_file.h"
#include "data/order/window_table.h"
#include "target.h"

namespace hearth::fuzz {

namespace {

constexpr int64_t kTokens = 1000, kSeqLen = 16;
constexpr const char* kKey = "key";

std::string file_of(const std::vector<std::vector<data::RowPart>>& windows, std::vector<uint32_t> order) {
  data::WindowTableBuilder builder;
  for (const auto& window : windows) {
    for (const data::RowPart& part : window) builder.add(part);
    builder.end_window();
  }
  const Path path = scratch() / "seed";
  data::write_table(path, kKey, builder.finish(1, std::move(order)));
  return read_file(path);
}

// Offsets as data/formats/table_file.h has them.
std::string signed_again(std::string bytes) {
  constexpr size_t kFixed = 40, kEntry = 16;
  if (bytes.size() < kFixed + sizeof(uint64_t)) return bytes;
  uint32_t count;
  std::memcpy(&count, bytes.data() + 12, sizeof count);
  const uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 32, &size, sizeof size);
  if (count > (size - kFixed - sizeof size) / kEntry) return bytes;
  const size_t header = kFixed + count * kEntry;
  size_t at = header + sizeof size;
  for (size_t entry = kFixed; entry < header; entry += kEntry) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + entry, sizeof length);
    if (length > size - at) break;
    const uint64_t checksum = xxh3_64(std::string_view(bytes).substr(at, length));
    std::memcpy(bytes.data() + entry + sizeof length, &checksum, sizeof checksum);
    at = std::min<size_t>(size, at + (length + 7) / 8 * 8);
  }
  const uint64_t checksum = xxh3_64(std::string_view(bytes).substr(0, header));
  std::memcpy(bytes.data() + header, &checksum, sizeof checksum);
  return bytes;
}

void read(std::string_view input) {
  const Path path = write_scratch("table", input);
  accepted([&] {
    const data::WindowTable table(data::read_table(path, kKey), kTokens, kSeqLen);
    std::vector<data::RowPart> parts;
    int64_t inputs = 0;
    for (int64_t window = 0; window < table.windows(); ++window) {
      table.parts(window, parts);
      for (const data::RowPart& part : parts) {
        require(part.first_token >= 0 && part.first_token + part.num_tokens() <= kTokens, "a part is outside");
        inputs += part.num_inputs;
      }
    }
    require(inputs + table.padding() == table.windows() * kSeqLen, "inputs and padding do not add up");
    for (const uint32_t window : table.order()) require(window < table.windows(), "the order points outside");
  });
}

}  // namespace

void run(std::string_view input) {
  read(input);
  read(signed_again(std::string(input)));
}

std::vector<std::string> seeds() {
  return {file_of({{{0, 16, true}}, {{16, 10, false}, {500, 6, true, false}}}, {}),
          file_of({{{990, 10, false}, {3, 0, true}}, {{7, 16, true}}, {{1, 1, true}}}, {2, 0, 1})};
}

}  // namespace hearth::fuzz
