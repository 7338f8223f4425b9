// SPDX-License-Identifier: Apache-2.0
// Runs the Python references: tests/tokenizer/llama3_reference.py.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "support/environment.h"
#include "support/python.h"

namespace hearth::tokenizer {

// Runs `command` of the script; file names are in `folder`.
inline void ask_reference(const std::string& arguments) {
  const auto result = test::run_python("tests/tokenizer/llama3_reference.py " + arguments);
  ASSERT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
}

template <typename T>
std::vector<T> read_numbers(const Path& path) {
  const std::string bytes = read_file(path);
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// Llama-3's tokenizer.model, from the package llama_models.
inline Path llama3_model() { return test::run_python("tests/tokenizer/llama3_reference.py model-path").output; }

}  // namespace hearth::tokenizer
