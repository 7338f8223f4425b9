// SPDX-License-Identifier: Apache-2.0
// The output of reference_tokenizers.py: documents, tokenizers, and the reference's ids.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "support/environment.h"
#include "support/python.h"
#include "tokenizer/tokenizer.h"

namespace hearth::test {

// A folder with the output of one KIND of script `name`. It takes seconds, and CTest runs every test as its own
// process. So the output is made once and kept in the build folder; its name depends on the script and the oracle's
// packages.
inline Path reference_folder(const std::string& kind, const std::string& name = "reference_tokenizers.py") {
  const std::string script = source_path("tests/tokenizer/" + name);
  const std::string key =
      xxh3_128_hex(read_file(script) + read_file(source_path("tests/tokenizer/reference_tokenizers.py")) +
                   read_file(source_path("scripts/oracle.txt")));
  const Path all = Path(HEARTH_BUILD_DIR) / "reference", folder = all / (kind + "-" + key.substr(0, 16));
  const Path partial = folder.string() + ".partial";
  make_folders(all);
  std::unique_ptr<FileLock> lock;
  // Another test may be making it.
  for (int waited_ms = 0; (lock = FileLock::try_lock(folder.string() + ".lock")) == nullptr; waited_ms += 50) {
    if (waited_ms > 1000 * kCommandLimit_s) {
      ADD_FAILURE() << folder << ".lock is locked by another process";
      return folder;
    }
    ::usleep(50'000);
  }
  if (path_exists(folder)) return folder;
  remove_tree(partial);
  const CommandResult result = run_python(script + " " + partial.string() + " " + kind);
  if (result.exit_code != 0)
    ADD_FAILURE() << result.output;
  else
    rename_path(partial, folder);
  return folder;
}

template <typename Row>
std::vector<Row> read_rows(const Path& path) {
  const std::string bytes = read_file(path);
  std::vector<Row> rows;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    uint32_t count = 0;
    std::memcpy(&count, bytes.data() + at, 4);
    const size_t size = count * sizeof(typename Row::value_type);
    Row& row = rows.emplace_back(count, typename Row::value_type{});
    if (size > 0) std::memcpy(row.data(), bytes.data() + at + 4, size);
    at += 4 + size;
  }
  return rows;
}

inline std::vector<std::string> read_texts(const Path& path) { return read_rows<std::string>(path); }
inline std::vector<std::vector<uint32_t>> read_ids(const Path& path) { return read_rows<std::vector<uint32_t>>(path); }

inline std::vector<std::string> styles_in(const Path& folder) {
  std::vector<std::string> styles;
  for (const std::string& name : list_folder(folder))
    if (std::filesystem::is_directory(folder / name)) styles.push_back(name);
  return styles;
}

// The reference's ids of other documents, in one style.
inline std::vector<std::vector<uint32_t>> ids_of_reference(const Path& style,
                                                           const std::vector<std::string>& documents) {
  const ScratchFolder scratch;
  std::string rows;
  for (const std::string& document : documents) {
    const auto size = static_cast<uint32_t>(document.size());
    rows.append(reinterpret_cast<const char*>(&size), sizeof size).append(document);
  }
  write_file_atomic(scratch / "documents", rows);
  const CommandResult result = run_python(fmt::format("tests/tokenizer/reference_tokenizers.py encode {} {} {}",
                                                      (style / "tokenizer.json").string(),
                                                      (scratch / "documents").string(), (scratch / "ids").string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return read_ids(scratch / "ids");
}

// Compares document by document; shows the first difference and its place.
inline void expect_same_ids(tokenizer::Encoder& encoder, const std::vector<std::string>& documents,
                            const std::vector<std::vector<uint32_t>>& expected) {
  ASSERT_EQ(documents.size(), expected.size());
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < documents.size(); ++i) {
    ids.clear();
    encoder.encode(documents[i], ids);
    if (ids == expected[i]) continue;
    size_t at = 0;
    while (at < ids.size() && at < expected[i].size() && ids[at] == expected[i][at]) ++at;
    FAIL() << "document " << i << ", \"" << documents[i].substr(0, 200) << "\": " << ids.size() << " ids instead of "
           << expected[i].size() << "; the first to differ is " << at;
  }
}

}  // namespace hearth::test
