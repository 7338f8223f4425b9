// SPDX-License-Identifier: Apache-2.0
// A power cut may lose everything that was not fsynced. A file or folder that gets its final name by a rename must be
// on the disk before the rename, and the name after it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/failpoint.h"

namespace hearth::test {

// The disk calls of `act`.
inline std::vector<failpoint::Call> disk_calls(const std::function<void()>& act) {
  std::vector<failpoint::Call> calls;
  failpoint::record(&calls);
  act();
  failpoint::record(nullptr);
  return calls;
}

// Checks every rename among `calls`. Before it, all that was created or written below the old name was fsynced,
// including folders with new entries. Right after it, its folder is fsynced. Returns the number of renames. Renames
// here stay in their folder.
inline int expect_durable(const std::vector<failpoint::Call>& calls) {
  std::set<Path> unsafe;  // files with bytes, and folders with names, that are not yet on the disk
  int renames = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& what = calls[i].what;
    const Path& path = calls[i].path;
    const Path folder = path.parent_path();
    if (what == "fsync") unsafe.erase(path);
    if (what == "create" || what == "write") unsafe.insert(path);
    if (what == "create") unsafe.insert(folder);
    if (what == "remove") std::erase_if(unsafe, [&](const Path& p) { return p == path; });
    if (what != "rename") continue;
    ++renames;
    for (const Path& p : unsafe) {
      const std::string inside = path.string() + "/";
      EXPECT_FALSE(p == path || p.string().starts_with(inside)) << p << " is renamed before it is on the disk";
    }
    std::erase_if(unsafe, [&](const Path& p) { return p == path || p.string().starts_with(path.string() + "/"); });
    const bool named = i + 1 < calls.size() && calls[i + 1].what == "fsync" && calls[i + 1].path == folder;
    EXPECT_TRUE(named) << "the new name of " << path << " is not on the disk";
  }
  return renames;
}

}  // namespace hearth::test
