// SPDX-License-Identifier: Apache-2.0
// The training loop. The first file to read.
#pragma once

#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/retain.h"
#include "comm/group.h"
#include "config/load.h"
#include "config/options.h"
#include "metrics/console.h"
#include "run/run.h"
#include "run/start.h"

namespace hearth::train {

// Trains as one rank, from the run folder's state to the last step (kDone) or until a request to leave (kAskedToLeave,
// after a checkpoint). Collective. Every other end is an Error, the same on all ranks if they can agree on it:
//   kUser      the configuration does not fit the data or the checkpoint; another training has the folder
//   kDamaged   data or every checkpoint is damaged; or the loss became NaN or infinite, which is not saved
// Errors about a key name its place in the run file. All errors that can be known before the run begins come together.
ExitCode run_training(const config::LoadResult& loaded, const config::TrainOptions& options, comm::Group& group);

// The loop itself: trains from a start to the last step. If the start's checkpoint turns out to be damaged, trains
// nothing and returns the damage. Collective.
std::variant<ExitCode, checkpoint::DamagedCheckpoint> train_from(const run::Run& run, run::Start& start,
                                                                 comm::Group& group, RankLog& log,
                                                                 metrics::Console::Style style);

// The same as run_training with threads of this process as ranks, for tests.
ExitCode run_training(const config::LoadResult& loaded, const config::TrainOptions& options);
ExitCode run_training(const config::RunConfig& config, const config::TrainOptions& options);  // without a file

}  // namespace hearth::train
