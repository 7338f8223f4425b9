#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tokenizer/bpe/train.h"
#include "tokenizer/unicode/byte_alphabet.h"

namespace hearth::tokenizer {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

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

}  // namespace

// Writes text directly, not a JSON tree: it is faster, and the vocabulary stays in order of id.
std::string huggingface_file(const TrainedBpe& bpe) {
  const auto num_special = static_cast<uint32_t>(bpe.training.special_tokens.size());
  const auto spelled = [&](uint32_t id) {
    return quoted(id < num_special ? bpe.tokens[id] : alphabet_of_bytes(bpe.tokens[id]));
  };
  std::vector<uint32_t> ids(bpe.tokens.size());
  for (uint32_t id = 0; id < ids.size(); ++id) ids[id] = id;

  std::string text = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  text += "  \"added_tokens\": ";
  append_rows(text, "[", "]", std::vector<uint32_t>(ids.begin(), ids.begin() + num_special), [&](uint32_t id) {
    return fmt::format(
        "{{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        id, spelled(id));
  });
  text += ",\n  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n";
  text += fmt::format(
      "    {{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", \"invert\": false}},\n",
      quoted(bpe.training.pattern));
  const std::string byte_level = "\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": ";
  text += "    {" + byte_level + "true, \"use_regex\": false}]},\n";
  text += "  \"post_processor\": null,\n  \"decoder\": {" + byte_level + "true, \"use_regex\": true},\n";
  text +=
      "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null,\n";
  text +=
      "    \"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n";
  text += "    \"vocab\": ";
  append_rows(text, "{", "}", ids, [&](uint32_t id) { return fmt::format("{}: {}", spelled(id), id); });
  text += ",\n    \"merges\": ";
  append_rows(text, "[", "]", bpe.merges,
              [&](const Merge& merge) { return fmt::format("[{}, {}]", spelled(merge.left), spelled(merge.right)); });
  return text + "\n  }\n}\n";
}

}  // namespace hearth::tokenizer
