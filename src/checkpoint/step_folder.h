// SPDX-License-Identifier: Apache-2.0
// The names of steps' folders in a folder of checkpoints.
//
//   on a disk    step-00000100           a checkpoint
//                step-00000100.3.tmp     start 3 of the training writes it
//   in a store   step-00000100.3.12      start 3 of the training writes it or has written it, as its save 12
//
// A store may execute a request long after its client gave up, even after the client's next try has succeeded. So no
// name in a store is used twice: a late request meets nothing that it could replace or remove. A checkpoint that was
// copied between a store and a disk keeps its name, so both kinds are read in both places.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

// Suffixes of a step's folder while it is written, replaced or deleted. Stored on disk: never change.
inline constexpr const char* kTemporarySuffix = ".tmp";
inline constexpr const char* kReplacedSuffix = ".replaced";
inline constexpr const char* kDeletedSuffix = ".deleted";

// Which save of a run: the number of the training's start (runfolder/lease.h), and of the save since that start.
struct SaveNumber {
  int64_t start = 0, save = 0;
  auto operator<=>(const SaveNumber&) const = default;
};

struct StepName {
  int64_t step = -1;
  SaveNumber number;  // {0, 0}: the name has no such numbers
};

std::string step_name_of(int64_t step);  // "step-00000100"
// The step of "step-00000100" or of "step-00000100.3.12"; nullopt for another name.
std::optional<StepName> parse_step_name(std::string_view name);

struct StepFolder {
  int64_t step = 0;
  SaveNumber number;
  Path folder;
};

// The names in a folder, sorted; none if it is missing.
std::vector<std::string> names_in(const Path& checkpoints);

// Whether a folder with a final name is a checkpoint. In a store it must have hearth.json, which a save writes last:
// without it, a save is under way or was interrupted. Costs one request to the store; opens nothing.
bool is_checkpoint(const StepFolder& found);

// All folders with final names, by step, and the oldest first within a step. Empty if `checkpoints` is missing. Costs
// one request to a store. Use it to delete folders, or to find a name that was never used.
std::vector<StepFolder> list_all_step_folders(const Path& checkpoints);
// The same folders, but only checkpoints. Costs a request to a store for each folder.
std::vector<StepFolder> list_step_folders(const Path& checkpoints);
// The newest checkpoint of each step.
std::vector<StepFolder> list_checkpoints(const Path& checkpoints);
// The steps of list_checkpoints(), ascending.
std::vector<int64_t> list_steps(const Path& checkpoints);

// CHECKPOINTS/step-00000100. If it is missing: the newest checkpoint of this step. For many steps use
// list_checkpoints(), because each call here asks a store for all of its folders.
Path step_folder(const Path& checkpoints, int64_t step);

// The folder that a save writes into. CHECKPOINTS/step-00000100.3.tmp for start number 3, so that two starts never
// share it, and CHECKPOINTS/step-00000100.tmp for start 0. In a store CHECKPOINTS/step-00000100.3.12.
Path temporary_folder(const Path& checkpoints, int64_t step, SaveNumber number = {});
// The name that this folder gets from commit(): in a store its own.
Path final_folder_of(const Path& temporary);

// A number for a training's start, at least `least`, that no folder of `checkpoints` has yet, complete or not. A new
// run folder counts from 1, but its store may already hold an older run's checkpoints.
int64_t unused_start(const Path& checkpoints, int64_t least);

}  // namespace hearth::checkpoint
