// SPDX-License-Identifier: Apache-2.0
// The names of steps' folders in a folder of checkpoints.
//
//   on a disk    step-00000100           a checkpoint
//                step-00000100.3.tmp     start 3 of the training writes it
//   in a store   step-00000100.3.12      start 3 of the training writes it or has written it, as its save 12
//
// A store executes a request that its client gave up whenever it likes, even after the next try of it is done. So no
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
  SaveNumber number;  // {0, 0}: a name without it
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

// Whether a folder of a final name is a checkpoint. In a store it has a hearth.json, which a save writes last: others
// are saves under way, or what is left of one. The store is asked; nothing is opened.
bool is_checkpoint(const StepFolder& found);

// The folders of final names, by step; of one step the newest is the last. Empty if `checkpoints` is missing. A store
// is asked once for all of them. For whoever deletes folders, or needs a name that was never used.
std::vector<StepFolder> list_all_step_folders(const Path& checkpoints);
// Those that are checkpoints. A store is asked once about each.
std::vector<StepFolder> list_step_folders(const Path& checkpoints);
// The newest of each step.
std::vector<StepFolder> list_checkpoints(const Path& checkpoints);
// The steps of these, ascending.
std::vector<int64_t> list_steps(const Path& checkpoints);

// CHECKPOINTS/step-00000100. If it is missing: the newest checkpoint of this step. To have those of many steps, take
// list_checkpoints(), or a store is asked for all of them each time.
Path step_folder(const Path& checkpoints, int64_t step);

// The folder that a save writes into. CHECKPOINTS/step-00000100.3.tmp for start number 3, so that two starts never
// share it, and CHECKPOINTS/step-00000100.tmp for start 0. In a store CHECKPOINTS/step-00000100.3.12.
Path temporary_folder(const Path& checkpoints, int64_t step, SaveNumber number = {});
// The name that this folder gets from commit(): in a store its own.
Path final_folder_of(const Path& temporary);

// A number for a start of a training that no folder of `checkpoints` has yet, complete or not; `least` or higher. A run
// whose folder is new begins at 1, and may go on in a store that has older ones' checkpoints.
int64_t unused_start(const Path& checkpoints, int64_t least);

}  // namespace hearth::checkpoint
