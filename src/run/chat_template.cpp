#include "run/chat_template.h"

#include <fmt/format.h>

#include "tokenizer/formats/chat_template.h"

namespace hearth::run {
namespace {

// Other programs' files have no hash of ours.
bool has_tokenizer_file(const Path& folder, std::string_view content) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (path_exists(folder / name)) return read_file(folder / name) == content;
  return false;
}

}  // namespace

std::string chat_template_of(const checkpoint::Reader& reader, const std::string& tokenizer_hash,
                             std::string_view tokenizer_file, std::vector<std::string>& notes) {
  std::string found;
  bool same = false;
  if (reader.has_manifest()) {
    const checkpoint::Manifest& manifest = reader.manifest();
    if (manifest.states.contains(tokenizer::kChatTemplateState)) found = manifest.state(tokenizer::kChatTemplateState);
    same = manifest.tokenizer_hash == tokenizer_hash;
  } else {
    found = tokenizer::read_chat_templates(reader.folder());
    same = has_tokenizer_file(reader.folder(), tokenizer_file);
  }
  if (found.empty() || same) return found;
  notes.push_back(
      fmt::format("the chat template of {} stays behind: its tokenizer is not the data's", reader.folder().string()));
  return {};
}

}  // namespace hearth::run
