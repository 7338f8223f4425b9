// SPDX-License-Identifier: Apache-2.0
// The rules between keys, all at once.
#pragma once

#include "config/load.h"

namespace hearth::config {

enum class Purpose {
  kTrain,
  kImport,  // as kTrain, and named files may be missing: `hearth config import`
  kBench,   // neither data nor a length is needed: `hearth bench step`
  kPlan     // as kBench, and named datasets may be missing: `hearth plan`
};

// Adds to loaded.problems. A rule is silent when one of its keys already has a problem.
void check(LoadResult& loaded, Purpose purpose);

}  // namespace hearth::config
