// SPDX-License-Identifier: Apache-2.0
// Files that tests write.
#pragma once

#include <string_view>

#include "base/file.h"

namespace hearth::test {

// Writes the file and its folders. An existing file is overwritten in place: a mapping of it sees the new bytes, as
// after damage.
inline void write_text(const Path& path, std::string_view text) {
  make_folders(path.parent_path());
  File file = File::create(path);
  file.write(text);
  file.close();
}

}  // namespace hearth::test
