// SPDX-License-Identifier: Apache-2.0
// The index of a Megatron or GPT-NeoX token file, next to a token file of a fixed size.
#include <cstring>

#include "data/formats/indexed_file.h"
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

constexpr size_t kTokenBytes = 96;

template <typename T>
void append(std::string& out, std::initializer_list<T> values) {
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void run(std::string_view input) {
  write_scratch("x.idx", input);
  const Path bin = write_scratch("x.bin", std::string(kTokenBytes, '\1'));
  accepted([&] {
    const data::IndexedFile file(bin);
    require(static_cast<uint64_t>(file.num_sequences()) <= input.size() / 12, "more sequences than the index can hold");
    accepted([&] { file.check_documents(); });
  });
  for (const int64_t begin : {0, 24, 25}) {
    accepted([&] {
      data::SourceFile source;
      source.path = source.real_path = bin.string();
      source.format = data::Format::kIndexed;
      if (begin == 25) source.label_file = bin.string();  // each its own label
      const auto reader = data::open_source(source, {}, {begin, begin + 48});
      size_t tokens = 0;
      for (data::Record record; reader->next(record);) tokens += record.ids.size();
      require(tokens <= kTokenBytes, "more tokens than the file holds");
    });
  }
}

std::vector<std::string> seeds() {
  std::string mapped("MMIDIDX\0\0", 9), legacy("TNTIDX\0\0", 8);
  append<uint64_t>(mapped, {1});
  mapped += '\x08';
  append<uint64_t>(mapped, {3, 4});
  append<int32_t>(mapped, {12, 0, 36});
  append<int64_t>(mapped, {0, 24, 24, 0, 1, 2, 3});
  append<uint64_t>(legacy, {1, 4, 4, 2, 2, 3});
  append<int64_t>(legacy, {0, 1, 2, 0, 10, 24, 10, 14, 0, 1, 2});
  std::string floats = mapped;
  floats[17] = '\x06';
  return {mapped, legacy, floats};
}

}  // namespace hearth::fuzz
