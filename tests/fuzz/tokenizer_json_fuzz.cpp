// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: whatever the file says, it is refused or gives ids that lie in the vocabulary. Ids do not depend on
// the cache or on safe cuts.
#include <cstring>

#include "target.h"
#include "tokenizer/formats/huggingface.h"
#include "tokenizer/small_file.h"

namespace hearth::fuzz {
namespace {

// A map of one character, "A" to "b": the root's children are in the first block of 256 units, and the second block has
// the leaf, at place 256.
std::string precompiled() {
  std::vector<uint32_t> units(512, 0);
  units['A'] = ('A' ^ 256u) << 10 | 1u << 8 | 'A';
  units[256] = 1u << 31;
  std::string bytes("\x00\x08\x00\x00", 4);
  bytes.append(reinterpret_cast<const char*>(units.data()), units.size() * sizeof units[0]).append("b\0", 2);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (bytes.size() % 3 != 0) bytes.push_back('\0');
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](size_t k) { return uint32_t{static_cast<unsigned char>(bytes[i + k])}; };
    const uint32_t bits = at(0) << 16 | at(1) << 8 | at(2);
    for (int shift = 18; shift >= 0; shift -= 6) text.push_back(kDigits[bits >> shift & 63]);
  }
  return fmt::format(R"({{"type": "Precompiled", "precompiled_charsmap": "{}"}})", text);
}

}  // namespace

void run(std::string_view input) {
  accepted([&] {
    const tokenizer::HuggingFaceTokenizer tokenizer(std::string(input), "fuzzed");
    for (const auto special : {tokenizer::SpecialText::kPlain, tokenizer::SpecialText::kParse}) {
      const auto encoder = tokenizer.encoder(special);
      std::vector<uint32_t> ids;
      const std::string text = " ab ba <s> \xC3\xA9\xFF 12\r\n A\xCC\x81 \xEF\xAC\x81\xE1\x84\x80\xE1\x85\xA1 ab AB? " +
                               std::string(input.substr(0, 64));
      encoder->encode(text, ids);
      for (const uint32_t id : ids) require(id < tokenizer.vocab_size(), "an id outside the vocabulary");
      tokenizer.decode_all(ids);
      if (special == tokenizer::SpecialText::kParse) continue;
      std::vector<uint32_t> uncached, parts;
      tokenizer.encoder_without_cache()->encode(text, uncached);
      require(uncached == ids, "the cache changes the ids");
      for (std::string_view rest = text; !rest.empty();) {
        const size_t cut = tokenizer.safe_cut(rest, std::min<size_t>(rest.size(), 40));
        encoder->encode(rest.substr(0, cut), parts);
        rest.remove_prefix(cut);
      }
      require(parts == ids, "cutting where it is safe changes the ids");
    }
  });
}

std::vector<std::string> seeds() {
  const auto with = [](const std::string& normalizer) { return test::small_tokenizer_file("<s>", "null", normalizer); };
  std::vector<std::string> files = {
      test::small_tokenizer_file(),
      test::small_tokenizer_file("</s>", test::template_with("</s>")),
      with(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
{"type": "Replace", "pattern": {"String": " "}, "content": "_"}]})"),
      with(R"({"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": true, "strip_right": true},
{"type": "Replace", "pattern": {"Regex": " {2,}|[0-9]"}, "content": " "}]})"),
      test::small_unigram_file(),
      test::small_unigram_file(R"({"type": "NFKC"})", true),
      test::small_unigram_file(precompiled()),
      test::small_word_file(),
      test::small_word_file(R"({"type": "BertNormalizer", "clean_text": true, "lowercase": true})"),
      with(precompiled())};
  // Without the bytes that UTF-8 never has, and with a class in a class.
  std::string pythia = test::small_tokenizer_file();
  for (const char* entry : {"\"\\u00c0\": 192, ", "\"\\u00ff\": 255, "})
    if (const size_t at = pythia.find(entry); at != std::string::npos) pythia.erase(at, std::strlen(entry));
  pythia.replace(pythia.find("257"), 3, "255");
  files.push_back(pythia);
  constexpr std::string_view kLevel = R"({"type": "ByteLevel", "add_prefix_space": false)";
  std::string bloom = test::small_tokenizer_file();
  bloom.replace(bloom.find(kLevel), 0,
                R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "invert": false,
"pattern": {"Regex": " ?[^(\\s|[.,!?])]+"}}, )");
  bloom.insert(bloom.find('}', bloom.find(kLevel)) + 1, "]}");
  files.push_back(bloom);
  for (const char* type : {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"})
    files.push_back(with(fmt::format(R"({{"type": "{}"}})", type)));
  return files;
}

}  // namespace hearth::fuzz
