// Every key of torchtitan's JSON files, and what an import does with it.
#pragma once

#include <span>

#include "config/import/draft.h"

namespace hearth::config {

std::span<const ImportRule> torchtitan_json_rules();

}  // namespace hearth::config
