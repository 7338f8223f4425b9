// SPDX-License-Identifier: Apache-2.0
// Resuming with an edited run file: the changes, and whether they are allowed. The rule of each key is
// Field::at_resume. docs/config.md has the table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/fields.h"

namespace hearth::config {

struct Difference {
  std::string name;
  AtResume at_resume;
  std::string before, after;  // as TOML; "none" for a table that this side does not have
};

// Key by key, in the order of fields(), then of list_fields(). `before` is what the checkpoint stores.
std::vector<Difference> differences(const RunConfig& before, const RunConfig& now);

// "training.steps: 1000 -> 2000", with a note for changes without an effect.
std::string describe(const Difference& difference);

// Throws one user_error that names every refused change. `checkpoint` is the path that the user knows.
void refuse_changes(const std::vector<Difference>& differences, std::string_view checkpoint,
                    std::string_view instead = "start a new run with another job.dump_folder, or with --restart");

}  // namespace hearth::config
