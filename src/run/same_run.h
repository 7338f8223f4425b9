// SPDX-License-Identifier: Apache-2.0
// What the ranks of a training must have alike, although each process has a command line and files of its own: the run,
// and what it reads. Rank 0's run file with its --set is the run of all ranks. What ranks read by themselves is
// compared before it is used, because a rank with another configuration, dataset or checkpoint would train on without a
// word.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "comm/control.h"
#include "config/load.h"

namespace hearth::run {

// What a command line says about the run.
struct GivenRun {
  Path run_toml;
  std::vector<std::string> sets;
  bool restart = false;
};

// Rank 0's run, read before the ranks meet.
struct FirstRun {
  std::string text;            // of the run file
  std::optional<Error> error;  // it cannot be read
  config::LoadResult loaded;   // read and checked, with its problems; without `error`

  // The run folder, where hosts of other ranks find what rank 0 wrote; empty if the file does not say it.
  Path folder() const;
};
FirstRun read_first_run(const GivenRun& given, int64_t ranks);

// Rank 0's run on all ranks, with its problems. `first`: rank 0's. The others do not read their run file, as long as
// their command line is rank 0's: an old copy of it on their host does no harm. Throws user_error that names the rank,
// its host and the keys if another command line gives another run. Collective.
config::LoadResult share_run(const std::optional<FirstRun>& first, const GivenRun& given, comm::Control& control);

// The same of a command that shares no run file (`hearth bench step`): throws if a rank has other keys than rank 0.
// Collective.
void require_one_run(const config::RunConfig& own, comm::Control& control);

// What a rank found where the run says that it is.
struct FoundInput {
  std::string key;       // of the run file: "data.path"
  std::string path;      // as the rank resolves it
  std::string identity;  // of the content
};
// Throws user_error that names the rank, its host and the key where a rank found something else than rank 0.
// Collective.
void require_same(std::string_view operation, const std::vector<FoundInput>& mine, comm::Control& control);

// The weights that a run takes: its own checkpoint, or those of checkpoint.initial_load_path; empty: neither. The
// identity of a checkpoint of Hearth is the hash of hearth.json, which has the checksums of all elements. Other files
// have names, sizes and samples of their content: a few dozen pages, spread over all of them.
std::vector<FoundInput> weights_found(const std::optional<Path>& own, const config::RunConfig& config);

}  // namespace hearth::run
