// SPDX-License-Identifier: Apache-2.0
// Small corpora on disk, and the content of datasets.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"
#include "data/build/build.h"
#include "data/shard/dataset.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/text_file.h"

namespace hearth::data {

using test::error_of;
using test::write_text;

// Words from a counter: every document is different.
inline std::string words(uint64_t seed, int64_t bytes) {
  static constexpr const char* kWords[] = {"the", "hearth", "burns",   "low",    "and",
                                           "red", "in",     "winter,", "when\n", "snow"};
  std::string text;
  for (uint64_t i = 0; static_cast<int64_t>(text.size()) < bytes; ++i) {
    text += kWords[random_u64(random_key(seed, "words"), i) % std::size(kWords)];
    text += ' ';
  }
  text.resize(static_cast<size_t>(bytes));
  return text;
}

// `count` files doc-000.txt, ... of 100 to 400 bytes.
inline void write_corpus(const Path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<uint64_t>(i);
    const auto bytes = static_cast<int64_t>(100 + random_u64(random_key(1, "length"), n) % 300);
    write_text(folder / fmt::format("doc-{:03}.txt", i), words(n, bytes));
  }
}

inline BuildResult run(const BuildOptions& options) {
  BuildProgress progress;
  return build_dataset(options, progress);
}

inline BuildResult build(const Path& out, std::vector<Path> paths, BuildRules rules = {}, int64_t threads = 1,
                         bool overwrite = false, int64_t portion_bytes = 64 << 20) {
  BuildOptions options;
  options.out = out;
  options.paths = std::move(paths);
  options.rules = rules;
  options.threads = threads;
  options.overwrite = overwrite;
  options.portion_bytes = portion_bytes;
  return run(options);
}

// All files of a folder with their content, one after the other. Two equal folders give equal texts.
inline std::string folder_content(const Path& folder) {
  std::string content;
  for (const std::string& name : list_folder(folder)) content += name + "\n" + read_file(folder / name) + "\n";
  return content;
}

inline std::vector<int32_t> all_tokens(const Split& split) {
  std::vector<int32_t> tokens(static_cast<size_t>(split.tokens()));
  split.read(0, tokens);
  return tokens;
}

}  // namespace hearth::data
