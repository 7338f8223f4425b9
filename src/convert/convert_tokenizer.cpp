// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a conversion, and what comes with it.
#include <fmt/format.h>

#include "base/error.h"
#include "config/load.h"
#include "convert/convert.h"
#include "data/batch/masking.h"
#include "hub/name.h"
#include "tokenizer/formats/chat_template.h"

namespace hearth::convert {

std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(Source& source, const Options& options) {
  if (!options.tokenizer.empty()) return tokenizer::open_tokenizer(options.tokenizer);
  if (source.kind == Kind::kNative) return source.reader.open_tokenizer();
  const Path& folder = source.reader.folder();
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (path_exists(folder / name)) return tokenizer::open_tokenizer((folder / name).string());
  }
  if (options.to != Kind::kNative) return nullptr;
  const int64_t size = source.description->model.vocab_size;
  source.notes.push_back(fmt::format(
      "{} has no tokenizer: the checkpoint has {} tokens without text (--tokenizer gives one)", folder.string(), size));
  return tokenizer::open_tokenizer(fmt::format("ids:{}", size));
}

std::string chat_template_for(Source& source, const Options& options) {
  std::string found;
  if (!options.tokenizer.empty()) {
    const Path given = hub::find_fetched(options.tokenizer);
    if (path_exists(given)) found = tokenizer::read_chat_templates(folder_exists(given) ? given : given.parent_path());
  } else if (source.kind != Kind::kNative) {
    found = tokenizer::read_chat_templates(source.reader.folder());
  } else if (const auto& states = source.reader.manifest().states; states.contains(tokenizer::kChatTemplateState)) {
    found = states.at(tokenizer::kChatTemplateState);
  }
  if (!found.empty() && options.to != Kind::kNative && options.to != Kind::kHuggingFace)
    source.notes.push_back(
        fmt::format("the chat template stays behind: the kind {} has no home for it", kind_name(options.to)));
  return found;
}

void complete_objective(Source& source, Kind to) {
  Description& d = *source.description;
  const bool keeps_window = d.model.sliding_window == 0 || to == Kind::kNative || to == Kind::kHuggingFace;
  if (!keeps_window && (d.max_positions == 0 || d.max_positions > d.model.sliding_window))
    throw no_home(fmt::format("model.sliding_window = {}", d.model.sliding_window), kind_name(to),
                  "its attention sees everything, and the model was made for longer sequences",
                  "write Hugging Face's format, or keep the model native");
  if (!keeps_window)
    source.notes.push_back(
        fmt::format("model.sliding_window = {} stays behind: the kind {} has no home for it, and longer sequences "
                    "compute something else",
                    d.model.sliding_window, kind_name(to)));
  const bool hides =
      d.objective == config::ObjectiveKind::kMaskedLm || d.objective == config::ObjectiveKind::kMaskedDiffusion;
  if (!hides || d.mask || !source.reader.has_manifest()) return;
  const config::RunConfig run =
      config::from_toml_text(source.reader.manifest().config_toml, checkpoint::kManifestFile, ".");
  try {
    d.mask = data::mask_id_of(run.objective, *source.reader.open_tokenizer(), d.model.vocab_size);
  } catch (const Error& error) {
    // A model of another program may have come without its mask.
    if (error.code() != ExitCode::kUser) throw;
  }
}

}  // namespace hearth::convert
