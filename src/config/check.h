// SPDX-License-Identifier: Apache-2.0
// Checks the rules between keys, and collects all problems.
#pragma once

#include "config/load.h"

namespace hearth::config {

enum class Purpose {
  kTrain,
  kImport,  // as kTrain, but named files may be missing: `hearth config import`
  kBench,   // neither data nor a length is needed: `hearth bench step`
  kPlan     // as kBench, but named datasets may be missing: `hearth plan`
};

// Adds to loaded.problems. A rule is silent when one of its keys already has a problem.
void check(LoadResult& loaded, Purpose purpose);

}  // namespace hearth::config
