#include "data/arrow_library.h"

#include <dlfcn.h>

#include <mutex>

#include "base/error.h"
#include "base/program.h"

namespace hearth::data {
namespace {

const ArrowLibrary* load() {
  std::string why = fmt::format("{} does not lie beside the program: Hearth was built without Arrow", kArrowObject);
  std::string fix = "run scripts/setup.sh, and build again";
  if (const auto place = beside_program(kArrowObject)) {
    // Never closed: readers live as long as anybody wants.
    void* object = ::dlopen(place->c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object != nullptr) {
      if (void* entry = ::dlsym(object, kArrowEntry)) return reinterpret_cast<OpenArrowLibrary>(entry)();
    }
    why = ::dlerror();
    fix = "copy the libraries from the build's bin/ folder: libarrow and libparquet lie beside it";
  }
  throw user_error("Parquet and Arrow files cannot be read or written here", why, fix);
}

}  // namespace

const ArrowLibrary& arrow_library() {
  static std::mutex mutex;
  static const ArrowLibrary* library = nullptr;
  const std::lock_guard lock(mutex);
  if (library == nullptr) library = load();
  return *library;
}

}  // namespace hearth::data
