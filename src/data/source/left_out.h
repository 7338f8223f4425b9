// SPDX-License-Identifier: Apache-2.0
// Files in a folder that are not data, and that a search in folders therefore leaves out. A file that the user names is
// always read, or refused. A pattern names a file only if it spells the name (path_list.h).
//
// Hidden: names that begin with a dot, such as .git, .gitattributes, .cache, .ipynb_checkpoints and .DS_Store.
//
// Unfinished: downloads and copies under way (*.incomplete, *.part, *.crdownload, *.tmp and their like; foo beside
// foo.aria2), and their locks (a.txt.lock beside a.txt, and *.lock in .cache/huggingface). Also Emacs's #foo#, and the
// folder _temporary, where Spark has the parts of a table until they are whole.
//
// Made by tools: the folders __pycache__ and __MACOSX, bare repositories of git, and the blobs and refs of a cache of
// Hugging Face's Hub, whose snapshots name the same files. Also desktop.ini, Thumbs.db, and what Spark writes beside
// the parts of a table: _SUCCESS, _metadata, _common_metadata, _committed_N, _started_N. Other version control: the
// folders CVS and _darcs, RCS's foo,v, and DVC's foo.dvc beside foo. Older copies: foo~, foo.bak, foo.orig and foo.old
// beside foo, or where foo has an ending.
//
// About the data: README, LICENSE and their like, and the descriptions that `datasets` and Kaggle write. These may be
// data themselves, for example in a folder of documentation. They are left out only beside records, where a key of
// records was named, or in a repository of the Hub. In such a repository with records, plain texts with the endings of
// programs, settings and pages are left out, too (beside_records.h).
//
// Excluded: by the user's --exclude.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::data {

enum class LeftOutReason { kHidden, kUnfinished, kOfTools, kAboutData, kExcluded };

struct LeftOut {
  std::string path;
  LeftOutReason reason = LeftOutReason::kHidden;
};

// Why an entry of a folder is not data, by its name. kAboutData is not decided by the name alone: see is_about_data.
std::optional<LeftOutReason> never_data(const Path& path, bool is_folder);

// Whether the name is usual for a file about data.
bool is_about_data(const Path& path);

// Whether the name has the ending of a program, of settings or of a page (.py, .yaml, .md), or no ending.
bool has_page_ending(const Path& path);

// Whether the folder is a repository of a dataset: it has a .gitattributes that stores large files elsewhere (git-lfs),
// the marks of a clone or download from Hugging Face's Hub, or a README.md that begins as the Hub's cards do. The
// cache of the Hub in a home folder (.cache/huggingface/hub) is no such mark.
bool is_hub_folder(const Path& folder);

// "3 hidden (.git, .gitattributes and .DS_Store), 1 about the data (README.md)"; empty for no entries.
std::string describe_left_out(const std::vector<LeftOut>& entries);

}  // namespace hearth::data
