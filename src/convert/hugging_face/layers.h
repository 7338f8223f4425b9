// SPDX-License-Identifier: Apache-2.0
// Which layers of a model have a window.
#pragma once

#include <vector>

#include "config/config.h"

namespace hearth::convert {

// Sets full_attention_interval if every n-th layer has no window, from the n-th or from an earlier one on; else a
// list.
void set_layer_types(config::Model& m, const std::vector<bool>& windowed);

}  // namespace hearth::convert
