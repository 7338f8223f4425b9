// SPDX-License-Identifier: Apache-2.0
// Folders that Hugging Face's `datasets` writes with save_to_disk. A dataset has Arrow streams, a state.json that lists
// them, and a dataset_info.json. A DatasetDict has a dataset_dict.json and one such folder per split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::data {

// Names of the folder's data files, in order; nothing for another kind of folder. Unlisted files (caches) are left out.
// Throws damaged() for a missing file or an invalid list, user_error for a dataset that selects its rows through
// another file.
std::optional<std::vector<std::string>> files_of_saved_dataset(const Path& folder);

// Names of a DatasetDict's splits, each a folder in it; nothing for another kind of folder. Throws damaged() for an
// invalid list.
std::optional<std::vector<std::string>> splits_of_saved_dict(const Path& folder);

}  // namespace hearth::data
