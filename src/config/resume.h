// A run goes on with an edited run file: what changed, and whether it may. The rule of each key is Field::at_resume;
// the table stands in docs/config.md.
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
  std::string before, after;  // as TOML; "none" in a table that the other does not have
};

// Key by key, in the order of fields(), then of list_fields(). `before` is what the checkpoint stores.
std::vector<Difference> differences(const RunConfig& before, const RunConfig& now);

// "training.steps: 1000 -> 2000", and what comes of it where that is nothing.
std::string describe(const Difference& difference);

// Throws one user_error that names every change that refuses. `checkpoint` is how the user knows it: its path.
void refuse_changes(const std::vector<Difference>& differences, std::string_view checkpoint,
                    std::string_view instead = "start a new run with another job.dump_folder, or with --restart");

}  // namespace hearth::config
