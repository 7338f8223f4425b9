// SPDX-License-Identifier: Apache-2.0
// The allowed names of a pickle.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::formats {

bool is_known_global(std::string_view name);  // "torch._utils._rebuild_tensor_v2"
bool is_known_enum(std::string_view name);    // a known global whose members may be given by name
size_t num_known_globals();

}  // namespace hearth::formats
