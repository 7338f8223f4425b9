// SPDX-License-Identifier: Apache-2.0
// Rules for the other files in folders that have records. A search leaves out files about the data, refuses to join
// splits, and names texts that may not be data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/source/left_out.h"
#include "data/source/source.h"

namespace hearth::data {

struct FoundFile {
  SourceFile source;
  std::string root;       // the folder in whose search it was found; empty: the user named the file itself
  std::string rank;       // different for each file; the corpus is sorted by it
  bool is_about = false;  // by its name a file about data, found in a folder
  // By its name a page or a program (has_page_ending), found in a folder. Once it was recognised: also a plain text,
  // perhaps refused because a key was named.
  bool is_page = false;
  std::optional<Error> refusal;  // why its kind of file is refused; empty: it is not
};

// Files about data are kept if all other files in their folder and its subfolders are text. Pages are kept unless they
// are in a repository of the Hub that has records.
void leave_out_beside_records(std::vector<FoundFile>& files, bool has_keys, std::vector<LeftOut>& left_out);

// Throws user_error for a repository of the Hub that has files, or folders, of several splits, by a word of their
// names: train in one place, and test, validation, dev or eval in the same or in another folder.
void refuse_joined_splits(const std::vector<FoundFile>& files);
[[noreturn]] void refuse_splits(const Path& folder, const std::vector<std::string>& splits, std::string fix);

// The paths of texts that were found in the search of a folder with records.
std::vector<std::string> texts_beside_records(const std::vector<FoundFile>& files);
// "read whole as texts beside records: 2 (README_zh.md, notes.txt)".
std::string describe_texts_beside(const std::vector<std::string>& paths);

// The paths of files about data that stay among texts, after leave_out_beside_records.
std::vector<std::string> texts_about_data(const std::vector<FoundFile>& files);
// "read as texts, although their names say that they are about the data: 2 (LICENSE, README.md); --exclude leaves them
// out".
std::string describe_texts_about(const std::vector<std::string>& paths);

}  // namespace hearth::data
