// The rules between keys, all at once.
#pragma once

#include "config/load.h"

namespace hearth::config {

enum class Purpose {
  kTrain,
  kBench,  // no data, no length: `hearth bench step`
  kPlan    // neither, and datasets that are named need not be there yet: `hearth plan`
};

// Adds to loaded.problems. A rule is silent when one of its keys already has a problem.
void check(LoadResult& loaded, Purpose purpose);

}  // namespace hearth::config
