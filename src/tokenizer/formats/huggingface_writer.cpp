// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tokenizer/bpe/train.h"
#include "tokenizer/unicode/byte_alphabet.h"

namespace hearth::tokenizer {
namespace {

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

// Appends `rows` between brackets, one on each line.
template <typename Range, typename Row>
void append_rows(std::string& text, std::string_view open, std::string_view close, const Range& range, const Row& row) {
  text += open;
  const char* separator = "\n";
  for (const auto& item : range) {
    text += separator;
    text += "      " + row(item);
    separator = ",\n";
  }
  text += "\n    ";
  text += close;
}

// A post_processor that puts a token before each text.
std::string template_of(const SpecialToken& before) {
  const std::string name = json_string(before.text);
  const std::string token = fmt::format("{{\"SpecialToken\": {{\"id\": {}, \"type_id\": 0}}}}", name);
  const std::string first = "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}";
  const std::string second = "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}";
  return fmt::format(
      "{{\"type\": \"TemplateProcessing\", \"single\": [{0}, {1}], \"pair\": [{0}, {1}, {2}, {3}],\n"
      "    \"special_tokens\": {{{4}: {{\"id\": {4}, \"ids\": [{5}], \"tokens\": [{4}]}}}}}}",
      token, first, fmt::format("{{\"SpecialToken\": {{\"id\": {}, \"type_id\": 1}}}}", name), second, name, before.id);
}

}  // namespace

// Writes text directly, not a JSON tree: it is faster, and the vocabulary stays in order of id.
std::string format_huggingface_file(const HuggingFaceBpe& bpe) {
  std::string text = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  text += "  \"added_tokens\": ";
  append_rows(text, "[", "]", bpe.special, [](const SpecialToken& token) {
    return fmt::format(
        "{{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        token.id, json_string(token.text));
  });
  text += ",\n  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n";
  text += fmt::format(
      "    {{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", \"invert\": false}},\n",
      json_string(bpe.pattern));
  const std::string byte_level = "\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": ";
  text += "    {" + byte_level + "true, \"use_regex\": false}]},\n";
  text += "  \"post_processor\": " + (bpe.before ? template_of(*bpe.before) : "null") + ",\n  \"decoder\": {";
  text += byte_level + "true, \"use_regex\": true},\n";
  text +=
      "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null,\n";
  text += fmt::format(
      "    \"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": {},\n",
      bpe.ignore_merges);
  text += "    \"vocab\": ";
  size_t id = 0;
  append_rows(text, "{", "}", bpe.spelled,
              [&](const std::string& token) { return fmt::format("{}: {}", json_string(token), id++); });
  text += ",\n    \"merges\": ";
  append_rows(text, "[", "]", bpe.merges, [&](const Merge& merge) {
    return fmt::format("[{}, {}]", json_string(bpe.spelled[merge.left]), json_string(bpe.spelled[merge.right]));
  });
  return text + "\n  }\n}\n";
}

std::string huggingface_file(const TrainedBpe& bpe) {
  const size_t num_special = bpe.training.special_tokens.size();
  HuggingFaceBpe file{.spelled = {}, .special = {}, .pattern = bpe.training.pattern, .merges = bpe.merges};
  for (uint32_t id = 0; id < bpe.tokens.size(); ++id) {
    if (id < num_special) file.special.push_back({bpe.tokens[id], id});
    file.spelled.push_back(id < num_special ? bpe.tokens[id] : alphabet_of_bytes(bpe.tokens[id]));
  }
  return format_huggingface_file(file);
}

}  // namespace hearth::tokenizer
