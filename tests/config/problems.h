// SPDX-License-Identifier: Apache-2.0
// The problems that the checks find in run files.
#pragma once

#include <string>
#include <vector>

#include "config/check.h"
#include "support/environment.h"

namespace hearth::config {

// The problems of a complete run file after `sets`.
inline std::vector<std::string> problems(std::vector<std::string> sets, Purpose purpose = Purpose::kTrain) {
  const test::ScratchFolder data;  // looks like a dataset
  write_file_atomic(data / "manifest.json", "{}");
  const std::vector<std::string> complete = {"data.path=" + data.path().string(), "training.steps=1000"};
  sets.insert(sets.begin(), complete.begin(), complete.end());
  LoadResult run = read_run({}, sets);
  check(run, purpose);
  std::vector<std::string> texts;
  for (const Problem& problem : run.problems) texts.push_back(problem.what);
  return texts;
}

// A folder that looks like a dataset as long as the tests run.
inline std::string dataset() {
  static const test::ScratchFolder folder;
  write_file_atomic(folder / "manifest.json", "{}");
  return folder.path().string();
}

inline std::vector<std::string> one(const std::string& text) { return {text}; }

}  // namespace hearth::config
