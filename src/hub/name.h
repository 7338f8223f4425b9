// SPDX-License-Identifier: Apache-2.0
// Names of repositories on the Hugging Face Hub, as commands and run files write them: hf:ORG/NAME[@REVISION] is a
// model, hf:datasets/ORG/NAME[@REVISION] is a dataset.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::hub {

inline constexpr std::string_view kPrefix = "hf:";

struct Name {
  bool is_dataset = false;
  std::string repository;  // "ORG/NAME"
  std::string revision;    // a branch, a tag or a commit; empty: the main branch

  bool operator==(const Name&) const = default;
};

bool is_name(std::string_view text);  // begins with "hf:"
// Throws user_error if `text` is not of the form above.
Name parse_name(std::string_view text);
std::string format_name(const Name& name);
// ORG/NAME alone, for --to. Throws user_error.
std::string parse_repository(std::string_view text);

// Where fetched files go unless a command says otherwise: HEARTH_HUB, or hearth/hub in the user's cache folder.
Path hub_folder();
// The repository's own folder there: models/ORG/NAME or datasets/ORG/NAME@REVISION.
Path folder_of(const Name& name);

// The folder of an hf: name whose files were fetched and checked. Throws user_error with the command if they were not.
// Any other text is returned as a path.
Path find_fetched(const std::string& text);

}  // namespace hearth::hub
