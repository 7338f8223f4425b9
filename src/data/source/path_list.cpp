// SPDX-License-Identifier: Apache-2.0
#include "data/source/path_list.h"

#include <glob.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/formats/stream_buffer.h"
#include "hub/name.h"

namespace hearth::data {
namespace {

// Whether a wildcard stands for "." or "..": `.*` would read the folder above.
bool leaves_folder(const Path& match, const Path& pattern) {
  return !std::equal(match.begin(), match.end(), pattern.begin(), pattern.end(),
                     [](const Path& name, const Path& part) { return name == part || (name != "." && name != ".."); });
}

}  // namespace

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
    const size_t before = expanded.paths.size();
    for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) {
      if (leaves_folder(found.gl_pathv[i], path)) continue;
      expanded.paths.emplace_back(found.gl_pathv[i]);
      expanded.patterns.try_emplace(found.gl_pathv[i], path.filename().string());
    }
    ::globfree(&found);
    if (expanded.paths.size() == before) throw user_error(fmt::format("nothing matches {}", path.string()));
  }
  for (const Path& path : paths) expanded.patterns.erase(path.string());
  return expanded;
}

std::vector<Path> read_source_list(const Path& list) {
  std::vector<Path> paths;
  std::string content = read_stream(list);
  if (content.starts_with(kByteOrderMark)) content.erase(0, kByteOrderMark.size());
  for (std::string line : split_lines(content)) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') paths.push_back(list.parent_path() / line);
  }
  if (paths.empty()) throw user_error(fmt::format("{} lists no path", list.string()), "", "write one path per line");
  return paths;
}

}  // namespace hearth::data
