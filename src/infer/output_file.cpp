// SPDX-License-Identifier: Apache-2.0
#include "infer/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"

namespace hearth::infer {

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

}  // namespace hearth::infer
