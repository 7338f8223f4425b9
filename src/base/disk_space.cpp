// SPDX-License-Identifier: Apache-2.0
#include "base/disk_space.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

void prepare_output(const char* option, const Path& file) {
  if (file.empty()) return;
  const char* fix = "give the path of a file that can be written";
  if (std::filesystem::is_directory(file))
    throw user_error(fmt::format("{} {}: it is a folder", option, file.string()), "", fix);
  const Path folder = file.has_parent_path() ? file.parent_path() : Path(".");
  try {
    make_folders(folder);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} {}: {}", option, file.string(), e.message()), e.why(), fix);
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw system_error(fmt::format("{} {}: {} cannot be written into", option, file.string(), folder.string()), errno,
                       fix);
}

}  // namespace hearth
