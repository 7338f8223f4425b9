// Every option of Megatron-LM, and what an import does with it.
#pragma once

#include <span>
#include <vector>

#include "config/import/draft.h"

namespace hearth::config {

std::span<const ImportRule> megatron_rules();
// Those of them that change no result, or that belong to other models and tasks.
std::vector<ImportRule> megatron_ignored();

}  // namespace hearth::config
