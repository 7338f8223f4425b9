// SPDX-License-Identifier: Apache-2.0
#include "base/shared_object.h"

#include <dlfcn.h>

#include "base/error.h"

namespace hearth {

void* load_entry(const Path& path, const char* entry, const std::string& what, const std::string& fix) {
  void* object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) throw user_error(what, ::dlerror(), fix);
  void* found = ::dlsym(object, entry);
  if (found == nullptr)
    throw user_error(fmt::format("{} belongs to another build than this program", path.string()),
                     fmt::format("it has no {}", entry),
                     "build Hearth again, and copy the build's bin/ folder as a whole");
  return found;
}

}  // namespace hearth
