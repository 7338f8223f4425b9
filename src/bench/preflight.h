// SPDX-License-Identifier: Apache-2.0
// `hearth preflight`: are the nodes of this allocation fit for the run? Every rank measures its own hardware, and all
// ranks exchange tensors. Then they make some steps of the real run, in a folder that is removed again.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "comm/join.h"
#include "config/load.h"
#include "config/options.h"

namespace hearth::bench {

struct PreflightResult {
  ExitCode code = ExitCode::kDone;
  std::vector<std::string> bad_nodes{};  // on rank 0: their names, sorted
};

// Collective; rank 0 prints a row for each check as soon as it is known. The result is kHardware if a node is faulty.
// Throws the errors of a run file, as a training does. `loaded`: the run of all ranks (run/same_run.h).
PreflightResult run_preflight(const config::PreflightOptions& options, const config::LoadResult& loaded,
                              comm::Control& control, const comm::MakeGroup& make_group);

}  // namespace hearth::bench
