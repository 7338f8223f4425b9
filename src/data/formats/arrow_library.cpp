// SPDX-License-Identifier: Apache-2.0
#include "data/formats/arrow_library.h"

#include <mutex>

#include "base/error.h"
#include "base/program.h"
#include "base/shared_object.h"

namespace hearth::data {
namespace {

const ArrowLibrary* load() {
  const std::string what = "Parquet and Arrow files cannot be read or written here";
  const auto place = beside_program(kArrowObject);
  if (!place)
    throw user_error(what,
                     fmt::format("{} is not in the program's folder: Hearth was built without Arrow", kArrowObject),
                     "run scripts/setup.sh, and build again");
  void* entry = load_entry(*place, HEARTH_ENTRY_NAME(HEARTH_ARROW_ENTRY), what,
                           "copy the libraries from the build's bin/ folder, which also has libarrow and libparquet");
  return reinterpret_cast<OpenArrowLibrary>(entry)();
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
