#include "commands/output_path.h"

#include <vector>

#include "base/error.h"
#include "data/saved_dataset.h"

namespace hearth::commands {
namespace {

// What is written over.
std::vector<Path> written_by(const std::string& to, const Path& out) {
  if (to != "bin-idx") return {out};
  return {out.string() + ".bin", out.string() + ".idx"};
}

}  // namespace

void prepare_output(const std::string& to, const Path& out, bool overwrite) {
  for (const Path& path : written_by(to, out)) {
    if (!path_exists(path)) continue;
    if (!overwrite)
      throw user_error(fmt::format("{} is there already", path.string()), "", "give another --out, or add --overwrite");
    const bool is_folder = std::filesystem::is_directory(path);
    const bool is_saved = is_folder && (list_folder(path).empty() || data::files_of_saved_dataset(path));
    if ((is_folder && to != "save-to-disk") || (to == "save-to-disk" && !is_saved))
      throw user_error(
          fmt::format("{} is a {} that holds something else", path.string(), is_folder ? "folder" : "file"), "",
          "give another --out");
  }
  if (out.has_parent_path()) make_folders(out.parent_path());
}

}  // namespace hearth::commands
