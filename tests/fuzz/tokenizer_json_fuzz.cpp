// tokenizer.json: whatever the file says, it is refused or gives ids that lie in the vocabulary; byte-level ids decode
// to the text they came from.
#include "target.h"
#include "tokenizer/formats/huggingface.h"
#include "tokenizer/small_file.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  accepted([&] {
    const tokenizer::HuggingFaceTokenizer tokenizer(std::string(input), "fuzzed");
    for (const auto special : {tokenizer::SpecialText::kPlain, tokenizer::SpecialText::kParse}) {
      const auto encoder = tokenizer.encoder(special);
      std::vector<uint32_t> ids;
      encoder->encode(std::string("ab ba <s> \xC3\xA9\xFF 12\r\n ") + std::string(input.substr(0, 64)), ids);
      for (const uint32_t id : ids) require(id < tokenizer.vocab_size(), "an id outside the vocabulary");
      tokenizer.decode_all(ids);
    }
  });
}

std::vector<std::string> seeds() {
  return {test::small_tokenizer_file(), test::small_tokenizer_file("</s>", test::template_with("</s>")),
          test::small_tokenizer_file("<s>", "null", R"({"type": "NFC"})"),
          test::small_tokenizer_file("<s>", "null",
                                     R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
{"type": "Replace", "pattern": {"String": " "}, "content": "_"}]})")};
}

}  // namespace hearth::fuzz
