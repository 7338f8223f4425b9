// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/import/draft.h"

namespace hearth::config {

// Reads Megatron-LM's options of mixtures of experts, after those of the model's sizes. Refuses those that would train
// another model. Without --num-experts it reads nothing.
void import_megatron_experts(Draft& draft);

}  // namespace hearth::config
