// SPDX-License-Identifier: Apache-2.0
#include "base/disk_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/program.h"
#include "base/quantity.h"

namespace hearth {

Path temporary_directory() {
  const std::string given = environment_variable("TMPDIR");
  Path folder = given.empty() ? "/tmp" : given;
  if (!folder_exists(folder))
    throw user_error(fmt::format("there is no folder {} for temporary files", folder.string()), {},
                     "set TMPDIR to a folder");
  return folder;
}

void require_disk_space(const Path& folder, int64_t bytes, std::string_view what, const std::string& fix) {
  Path place = std::filesystem::absolute(folder);
  while (!path_exists(place)) place = place.parent_path();
  const auto available = static_cast<int64_t>(
      std::min<uintmax_t>(std::filesystem::space(place).available, std::numeric_limits<int64_t>::max()));
  if (available >= bytes) return;
  const auto [needed, free] = format_bytes_apart(bytes, available);
  throw Error(ExitCode::kHardware, fmt::format("{} is too small for {}", place.string(), what),
              fmt::format("{} are needed and {} are free", needed, free), fix);
}

}  // namespace hearth
