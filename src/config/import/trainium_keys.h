// Every variable and option of Arcee's scripts for AWS Trainium, and what an import does with it.
#pragma once

#include <span>

#include "config/import/draft.h"

namespace hearth::config {

std::span<const ImportRule> trainium_rules();

}  // namespace hearth::config
