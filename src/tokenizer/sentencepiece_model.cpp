#include "tokenizer/sentencepiece_model.h"

#include <dlfcn.h>

#include <mutex>

#include "base/error.h"
#include "base/program.h"

namespace hearth::tokenizer {
namespace {

OpenSentencePiece load_entry() {
  std::string why = fmt::format("{} does not lie beside the program", kSentencePieceObject);
  if (const auto place = beside_program(kSentencePieceObject)) {
    // Never closed: models live as long as anybody wants.
    void* object = ::dlopen(place->c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object != nullptr) {
      if (void* entry = ::dlsym(object, kSentencePieceEntry)) return reinterpret_cast<OpenSentencePiece>(entry);
    }
    why = ::dlerror();
  }
  throw user_error("SentencePiece models cannot be read here", why,
                   "copy it from the build's bin/ folder; the library's package is libsentencepiece0");
}

}  // namespace

std::unique_ptr<SentencePieceModel> open_sentencepiece_model(std::string_view content, const std::string& origin) {
  static std::mutex mutex;
  static OpenSentencePiece entry = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (entry == nullptr) entry = load_entry();
  }
  std::string error;
  std::unique_ptr<SentencePieceModel> model(entry(content, error));
  if (model == nullptr)
    throw user_error(fmt::format("{} is no SentencePiece model", origin), error, "is it whole? download it again");
  return model;
}

}  // namespace hearth::tokenizer
