// The folder of this program and the files next to it.
#pragma once

#include <optional>
#include <string_view>

#include "base/file.h"

namespace hearth {

// The program's file `name`: in the program's folder, or in ../bin or ../lib (tests; other layouts). Empty if there is
// no such file.
std::optional<Path> beside_program(std::string_view name);

}  // namespace hearth
