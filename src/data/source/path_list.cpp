#include "data/source/path_list.h"

#include <glob.h>

#include "base/error.h"
#include "base/text.h"
#include "hub/name.h"

namespace hearth::data {

GivenPaths expand_patterns(const std::vector<Path>& paths) {
  GivenPaths expanded;
  for (const Path& path : paths) {
    if (hub::is_name(path.string())) {
      expanded.paths.push_back(hub::find_fetched(path.string()));
      continue;
    }
    if (path.string().find_first_of("*?[") == std::string::npos || path_exists(path)) {
      expanded.paths.push_back(path);
      continue;
    }
    glob_t found{};
    const int status = ::glob(path.c_str(), 0, nullptr, &found);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) {
      expanded.paths.emplace_back(found.gl_pathv[i]);
      expanded.patterns.try_emplace(found.gl_pathv[i], path.filename().string());
    }
    ::globfree(&found);
    if (status != 0) throw user_error(fmt::format("nothing matches {}", path.string()));
  }
  for (const Path& path : paths) expanded.patterns.erase(path.string());
  return expanded;
}

std::vector<Path> read_source_list(const Path& list) {
  std::vector<Path> paths;
  const std::string content = read_stream(list);
  for (std::string line : split_lines(content)) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') paths.push_back(list.parent_path() / line);
  }
  if (paths.empty()) throw user_error(fmt::format("{} lists no path", list.string()), "", "write one path per line");
  return paths;
}

}  // namespace hearth::data
