// Every key of Transformers' TrainingArguments, of its scripts for language models and of accelerate's configuration,
// and what an import does with it.
#pragma once

#include <span>

#include "config/import/draft.h"

namespace hearth::config {

std::span<const ImportRule> transformers_rules();

}  // namespace hearth::config
