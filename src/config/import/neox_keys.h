// Every key of GPT-NeoX's YAML files, and what an import does with it.
#pragma once

#include <span>

#include "config/import/draft.h"

namespace hearth::config {

std::span<const ImportRule> neox_rules();

}  // namespace hearth::config
