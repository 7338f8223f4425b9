// Where this program lies, and what lies beside it.
#pragma once

#include <optional>
#include <string_view>

#include "base/file.h"

namespace hearth {

// The file `name` that belongs to the program: in its folder, or in bin/ or lib/ beside that folder (tests; other
// layouts). Nothing where no such file exists.
std::optional<Path> beside_program(std::string_view name);

}  // namespace hearth
