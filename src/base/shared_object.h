// SPDX-License-Identifier: Apache-2.0
// Hearth's own shared objects. They are loaded on first use, because they or their libraries may be missing.
//
// The name of the entry function ends in a hash of the headers that both sides include (cmake/InterfaceHash.cmake). The
// entry of another build's object has another name, so loading it fails with an error and not with a crash.
#pragma once

#include <string>

#include "base/file.h"

// HEARTH_ENTRY_NAME(HEARTH_ARROW_ENTRY) is "hearth_arrow_library_1a2b3c4d".
#define HEARTH_ENTRY_NAME(entry) HEARTH_ENTRY_NAME_OF(entry)
#define HEARTH_ENTRY_NAME_OF(entry) #entry

namespace hearth {

// The entry function of the object at `path`. The object is never closed. Throws user_error with `what` and `fix` if it
// cannot be loaded or belongs to another build.
void* load_entry(const Path& path, const char* entry, const std::string& what, const std::string& fix);

}  // namespace hearth
