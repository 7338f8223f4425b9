// The training loop. The first file to read.
#pragma once

#include "base/error.h"
#include "config/load.h"
#include "config/options.h"

namespace hearth::train {

// Trains from the run folder's state to the last step (kDone) or to a signal (kAskedToLeave, after a checkpoint).
// Starts the ranks itself. Everything else is an Error:
//   kUser      the configuration does not fit the data or the checkpoint; another training has the folder
//   kDamaged   data or every checkpoint is damaged; or the loss became NaN or infinite, which is not saved
// What stems from a key says where it stands; all that can be known to be wrong before the run begins is said at once.
ExitCode run_training(const config::LoadResult& loaded, const config::TrainOptions& options);
ExitCode run_training(const config::RunConfig& config, const config::TrainOptions& options);  // of no file

}  // namespace hearth::train
