// SPDX-License-Identifier: Apache-2.0
// A fuzz target: one of our readers and inputs that it takes. NAME_fuzz.cpp defines run() and seeds() below, and
// becomes
//   - in every build a program that replays seeds, tests/fuzz/corpus/NAME/ and mutations of both (replay.cpp, CTest);
//   - in the `fuzz` preset a libFuzzer program (libfuzzer.cpp).
// Inputs that once broke a reader, ours and small, stay in tests/fuzz/corpus/NAME/.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/environment.h"

namespace hearth::fuzz {

// Gives the input to the reader and uses what comes out. Returns, whatever the input is: an exception that leaves it, a
// signal, a hang or memory beyond what the input implies is a finding.
void run(std::string_view input);

// Good inputs, written by our own writers.
std::vector<std::string> seeds();

// Calls `body`; false if it refused: an Error that says that the input is wrong or damaged. Nothing else is caught.
template <typename Body>
bool accepted(Body body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kDamaged || e.code() == ExitCode::kUser) return false;
    throw;
  }
}

// A property that must hold for whatever was accepted.
inline void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

// A folder for readers of files, removed at the end.
inline const Path& scratch() {
  static const test::ScratchFolder folder;
  return folder.path();
}

inline Path write_scratch(const std::string& name, std::string_view content) {
  const Path path = scratch() / name;
  File file = File::create(path);
  file.write(content);
  file.close();
  return path;
}

}  // namespace hearth::fuzz
