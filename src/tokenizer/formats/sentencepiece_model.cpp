// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/sentencepiece_model.h"

#include <mutex>

#include "base/error.h"
#include "base/program.h"
#include "base/shared_object.h"

namespace hearth::tokenizer {
namespace {

OpenSentencePiece load_library() {
  const std::string what = "SentencePiece models cannot be read here";
  const std::string fix = "copy it from the build's bin/ folder; the library's package is libsentencepiece0";
  const auto place = beside_program(kSentencePieceObject);
  if (!place) throw user_error(what, fmt::format("{} is not in the program's folder", kSentencePieceObject), fix);
  return reinterpret_cast<OpenSentencePiece>(
      load_entry(*place, HEARTH_ENTRY_NAME(HEARTH_SENTENCEPIECE_ENTRY), what, fix));
}

}  // namespace

std::unique_ptr<SentencePieceModel> open_sentencepiece_model(std::string_view content, const std::string& origin) {
  static std::mutex mutex;
  static OpenSentencePiece entry = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (entry == nullptr) entry = load_library();
  }
  std::string error;
  std::unique_ptr<SentencePieceModel> model(entry(content, error));
  if (model == nullptr)
    throw user_error(fmt::format("{} is no SentencePiece model", origin), error,
                     "the file may be cut short; download it again");
  return model;
}

}  // namespace hearth::tokenizer
