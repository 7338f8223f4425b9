// SPDX-License-Identifier: Apache-2.0
// A file's kind, found from its content, and the reader of that kind; unpacked where it is compressed.
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  // A few bytes of zstd may ask for a window of 2 GiB, which is within its limit and beyond that of libFuzzer.
  if (data::compression_of(input) == data::Compression::kZstd) return;
  const Path path = write_scratch("x", input);
  for (const bool has_keys : {false, true}) {
    accepted([&] {
      const data::Recognised found = data::recognise(path, {}, {.has_keys = has_keys, .as_text = false});
      if (found.format == data::Format::kParquet || found.format == data::Format::kArrow) return;  // data_columns
      data::SourceFile source;
      source.path = source.real_path = path.string();
      source.size_bytes = static_cast<int64_t>(input.size());
      source.format = found.format;
      source.compression = found.compression;
      const auto reader = data::open_source(source, {});
      // Damage that the look at the file's begin does not find ends the reading.
      for (data::Record record; reader->next(record);)
        require(!has_keys || found.format != data::Format::kText || record.text.empty(), "with a key a file is a text");
    });
  }
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"plain words\n"s,
          // "hello" by xz and bzip2
          "\375\067\172\130\132\000\000\004\346\326\264\106\002\000\041\001\026\000\000\000\164\057\345\243"
          "\001\000\004\150\145\154\154\157\000\000\000\000\261\067\271\333\345\332\036\233\000\001\035\005"
          "\270\055\200\257\037\266\363\175\001\000\000\000\000\004\131\132"s,
          "\102\132\150\071\061\101\131\046\123\131\031\061\145\075\000\000\000\201\000\002\104\240\000\041"
          "\232\150\063\115\007\063\213\271\042\234\050\110\014\230\262\236\200"s,
          "PK\x03\x04\x14\0\0\0"s, "[{\"text\": \"a\"}, {\"text\": \"b\"}]"s, "text,id\na,1\nb,2\n"s,
          "version https://git-lfs.github.com/spec/v1\n"s, "\xff\xfe\x61\0"s};
}

}  // namespace hearth::fuzz
