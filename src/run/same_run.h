// SPDX-License-Identifier: Apache-2.0
// Makes sure that all ranks train the same run, although each process has its own command line and files. Rank 0's run
// file with its --set is the run of all ranks. Whatever ranks read by themselves is compared before it is used, because
// a rank with another configuration, dataset or checkpoint would train without any error.
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
  std::optional<Error> misuse{};  // of an option that a rank of a launcher does not take
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

// How long this process waits until all ranks have met: comm.init_timeout_seconds, or its default if the key cannot be
// read. `first`: rank 0's run. Another rank does not know it yet, and reads its own run file. An old copy does no harm:
// a rank that has found rank 0 waits as long as rank 0 does.
double join_timeout_s(const std::optional<FirstRun>& first, const GivenRun& given, int64_t ranks);

// Rank 0's run on all ranks, with its problems. `first`: rank 0's. The others do not read their run file if their
// command line equals rank 0's, so an old copy of it on their host does no harm. Throws user_error that names the rank,
// its host and the keys if another command line gives another run, and the misuse of any rank. Collective.
config::LoadResult share_run(const std::optional<FirstRun>& first, const GivenRun& given, comm::Control& control);

// For a command that shares no run file (`hearth bench step`): throws if a rank's keys differ from rank 0's.
// Collective.
void require_one_run(const config::RunConfig& own, comm::Control& control);

// An input of the run, as one rank found it.
struct FoundInput {
  std::string key;       // of the run file: "data.path"
  std::string path;      // as the rank resolves it
  std::string identity;  // of the content
};
// Throws user_error, which names the rank, its host and the key, if a rank's input differs from rank 0's. Collective.
void require_same(std::string_view operation, const std::vector<FoundInput>& mine, comm::Control& control);

// The weights that a run takes: its own checkpoint's, or the weights at checkpoint.initial_load_path; empty: neither.
// The identity of a checkpoint of Hearth is the hash of hearth.json, which has the checksums of all elements. The
// identity of other files is a hash of their names, their sizes and a few dozen pages spread over their content.
std::vector<FoundInput> weights_found(const std::optional<Path>& own, const config::RunConfig& config);

}  // namespace hearth::run
