// SPDX-License-Identifier: Apache-2.0
#include "formats/lfs_pointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.h"

namespace hearth::formats {

void refuse_lfs_pointer(const File& file, const std::string& origin) {
  constexpr std::string_view kStart = "version https://git-lfs";
  std::string start(static_cast<size_t>(std::min(file.size_bytes(), std::ssize(kStart))), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  if (start == kStart)
    throw user_error(fmt::format("{} is a pointer of Git LFS, not the file itself", origin),
                     "the repository was cloned without its large files",
                     "run `git lfs pull` there, or take the model with `hearth fetch`");
}

}  // namespace hearth::formats
