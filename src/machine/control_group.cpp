// SPDX-License-Identifier: Apache-2.0
#include "machine/control_group.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace hearth::machine {
namespace {

// One tree of control groups: its mount point, the group at that point, and the name of its limit file.
struct Hierarchy {
  bool version_1;
  Path mount_point = version_1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
  Path mounted_group = "/";

  const char* limit_file() const { return version_1 ? "memory.limit_in_bytes" : "memory.max"; }
};

// Empty if the file is missing or unreadable: a plan does without it.
std::string text_of(const Path& path) {
  try {
    return path_exists(path) ? read_file(path) : "";
  } catch (const Error&) {
    return {};
  }
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Replaces octal escapes such as "\040" (a blank) of a path.
Path unescaped(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const bool escape = text[i] == '\\' && i + 3 < text.size() &&
                        std::from_chars(&text[i + 1], &text[i + 4], code, 8).ptr == &text[i + 4];
    path += escape ? static_cast<char>(code) : text[i];
    if (escape) i += 3;
  }
  return path;
}

// Lines are 36 35 98:0 ROOT MOUNT_POINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS. Without any, the default mount
// points.
std::vector<Hierarchy> hierarchies(const Path& root) {
  std::vector<Hierarchy> found;
  for (const std::string& line : split_lines(text_of(root / "proc/self/mountinfo"))) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.end() - dash < 4 || dash - words.begin() < 6) continue;
    const bool version_1 = dash[1] == "cgroup" && holds(split(dash[3], ','), "memory");
    if (version_1 || dash[1] == "cgroup2") found.push_back({version_1, unescaped(words[4]), unescaped(words[3])});
  }
  if (found.empty()) found = {{.version_1 = false}, {.version_1 = true}};
  return found;
}

// The process's group; "/" if it is not known. Lines are 5:cpu,memory:/a/b (version 1) or 0::/a/b (version 2).
Path own_group(const Path& root, bool version_1) {
  for (const std::string& line : split_lines(text_of(root / "proc/self/cgroup"))) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool this_one = version_1 ? holds(split(controllers, ','), "memory") : line.starts_with("0::");
    if (this_one) return line.substr(second + 1);
  }
  return "/";
}

// The group's path below the mount point. Empty, the mount point itself, if another part of the tree is mounted (a
// container that sees its host's names), or the group is outside of this namespace ("/../other").
Path below_mount(const Path& group, const Path& mounted_group) {
  const Path relative = group.lexically_relative(mounted_group);
  const bool inside = !relative.empty() && std::find(relative.begin(), relative.end(), "..") == relative.end() &&
                      std::find(group.begin(), group.end(), "..") == group.end();
  return inside && relative != "." ? relative : Path();
}

std::optional<int64_t> limit_in(const Path& file) {
  // Version 1 writes "no limit" as the largest number of whole pages.
  constexpr int64_t kNone = int64_t{1} << 62;
  const std::string text = text_of(file);
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);  // or "max"
  return error == std::errc() && bytes > 0 && bytes < kNone ? std::optional(bytes) : std::nullopt;
}

}  // namespace

std::optional<int64_t> control_group_memory_bytes(const Path& root) {
  std::optional<int64_t> least;
  for (const Hierarchy& tree : hierarchies(root)) {
    const Path mount = root / tree.mount_point.relative_path();
    for (Path group = below_mount(own_group(root, tree.version_1), tree.mounted_group);; group = group.parent_path()) {
      if (const auto limit = limit_in(mount / group / tree.limit_file()))
        least = std::min(least.value_or(*limit), *limit);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace hearth::machine
