#include "commands/data/output_path.h"

#include "base/error.h"
#include "data/formats/saved_dataset.h"

namespace hearth::commands {
namespace {

void prepare(const Path& path, bool overwrite, bool as_folder) {
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

}  // namespace

void prepare_output_files(const std::vector<Path>& files, bool overwrite) {
  for (const Path& file : files) prepare(file, overwrite, /*as_folder=*/false);
}

void prepare_output_folder(const Path& folder, bool overwrite) { prepare(folder, overwrite, /*as_folder=*/true); }

}  // namespace hearth::commands
