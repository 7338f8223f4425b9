// SPDX-License-Identifier: Apache-2.0
// Imports texts as files, and compares the results with run files of configs/.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/import/import.h"
#include "config/load.h"
#include "support/environment.h"

namespace hearth::config::test_import {

// In a folder of its own, which is the current folder meanwhile: messages have short names.
class ImportTest : public testing::Test {
 protected:
  ImportTest() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  ~ImportTest() override { std::filesystem::current_path(before_); }

  using Files = std::vector<std::pair<std::string, std::string>>;  // name, text
  static std::string import_text(const Files& files, const ImportOptions& options = {}, std::string_view from = {}) {
    std::vector<Path> paths;
    for (const auto& [name, text] : files) {
      write_file_atomic(name, text);
      paths.emplace_back(name);
    }
    return import_run(paths, from, options, "hearth config import").text;
  }
  static LoadResult import(const Files& files, const ImportOptions& options = {}, std::string_view from = {}) {
    LoadResult run = read_run_text(import_text(files, options, from), "imported.toml", ".");
    EXPECT_TRUE(run.problems.empty()) << (run.problems.empty() ? "" : run.problems.front().what);
    return run;
  }
  static std::string error(const Files& files, const ImportOptions& options = {}, std::string_view from = {}) {
    try {
      const std::string text = import_text(files, options, from);
      return "imported:\n" + text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kUser);
      return e.what();
    }
  }

  // Every key with its value, as TOML writes it.
  static std::map<std::string, std::string> values(const RunConfig& config) {
    std::map<std::string, std::string> all;
    for (const Entry& entry : entries(config))
      all[entry.name()] = to_toml_value(entry.field->value(config, entry.item));
    return all;
  }
  // "KEY = imported, not value" for each key whose value differs from that of configs/NAME, but for `expected` ones.
  static std::vector<std::string> differences_from(const std::string& name, const RunConfig& imported,
                                                   const std::vector<std::string>& expected) {
    const LoadResult shipped = read_run(test::source_path("configs/" + name), {});
    const auto ours = values(shipped.config), theirs = values(imported);
    std::vector<std::string> found;
    for (const auto& [key, value] : theirs) {
      const auto at = ours.find(key);
      const std::string other = at == ours.end() ? "nothing" : at->second;
      if (other == value) continue;
      const bool known = std::any_of(expected.begin(), expected.end(), [&key = key](const std::string& one) {
        return one == key || (one.ends_with('*') && key.starts_with(one.substr(0, one.size() - 1)));
      });
      if (!known) found.push_back(fmt::format("{} = {}, not {}", key, value, other));
    }
    for (const auto& [key, value] : ours) {
      if (!theirs.contains(key)) found.push_back(fmt::format("{} = {} is missing", key, value));
    }
    return found;
  }

 private:
  test::ScratchFolder folder_;
  std::filesystem::path before_;
};

}  // namespace hearth::config::test_import
