// Folders that Hugging Face's `datasets` writes with save_to_disk: Arrow streams beside a state.json that lists them
// and a dataset_info.json; a DatasetDict is a dataset_dict.json with such a folder a split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::data {

// Names of the folder's data files, in order; nothing where it is no such dataset. Files that are not listed (caches)
// do not belong to it. Throws damaged() where a listed file is missing or the list makes no sense, user_error for a
// dataset that selects its rows through another file.
std::optional<std::vector<std::string>> files_of_saved_dataset(const Path& folder);

// Names of the splits of a DatasetDict, each a folder in it; nothing for any other folder. Throws damaged() for a list
// that makes no sense.
std::optional<std::vector<std::string>> splits_of_saved_dict(const Path& folder);

}  // namespace hearth::data
