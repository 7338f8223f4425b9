// SPDX-License-Identifier: Apache-2.0
// Parts of a run of GPT-NeoX: its optimizer and its rates.
#pragma once

#include <string_view>

#include "config/import/draft.h"

namespace hearth::config {

// The data decide how many steps train_epochs are. Keys that need that number are refused with these words.
inline constexpr std::string_view kNeoxNeedsSteps = "train_epochs does not say the number of steps";

// Sets optimizer.* and lr_scheduler.*. `llemma`: the file is of the branch of 2023. The run's length is set already.
void import_neox_schedule(Draft& draft, bool llemma);

}  // namespace hearth::config
