// Shared objects of our own, which are loaded on first use because they, or what they are linked with, need not be
// there.
//
// The name of their entry ends in a hash of the headers that both sides include (cmake/InterfaceHash.cmake): in one of
// another build it is not found, where calling it would crash.
#pragma once

#include <string>

#include "base/file.h"

// HEARTH_ENTRY_NAME(HEARTH_ARROW_ENTRY) is "hearth_arrow_library_1a2b3c4d".
#define HEARTH_ENTRY_NAME(entry) HEARTH_ENTRY_NAME_OF(entry)
#define HEARTH_ENTRY_NAME_OF(entry) #entry

namespace hearth {

// The entry of the object at `path`, which is never closed: what comes from it lives as long as anybody wants. Throws
// user_error: `what` and `fix` where it cannot be loaded, and where it belongs to another build.
void* load_entry(const Path& path, const char* entry, const std::string& what, const std::string& fix);

}  // namespace hearth
