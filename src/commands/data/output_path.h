// SPDX-License-Identifier: Apache-2.0
// Output paths of commands that write something other than a dataset of ours.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "data/formats/saved_dataset.h"

namespace hearth::commands {

// Throws user_error if the output would overwrite something: a file, or a folder in the layout of save_to_disk. With
// `overwrite`, a file may replace a file, and a folder may replace an empty one or an earlier export. Makes the parent
// folder.
inline void prepare_output(const Path& path, bool overwrite, bool as_folder) {
  if (path_exists(path)) {
    if (!overwrite)
      throw user_error(fmt::format("{} exists already", path.string()), "", "give another --out, or add --overwrite");
    const bool is_folder = std::filesystem::is_directory(path);
    const bool is_saved = is_folder && (list_folder(path).empty() || data::files_of_saved_dataset(path));
    if (as_folder ? !is_saved : is_folder)
      throw user_error(
          fmt::format("{} is a {} that holds something else", path.string(), is_folder ? "folder" : "file"), "",
          "give another --out");
  }
  if (path.has_parent_path()) make_folders(path.parent_path());
}

}  // namespace hearth::commands
