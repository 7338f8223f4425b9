#include "base/program.h"

namespace hearth {

std::optional<Path> beside_program(std::string_view name) {
  std::error_code error;
  const Path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const Path& place : {folder / name, folder / ".." / "bin" / name, folder / ".." / "lib" / name})
    if (path_exists(place)) return place;
  return std::nullopt;
}

}  // namespace hearth
