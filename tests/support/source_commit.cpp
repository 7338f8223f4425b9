// SPDX-License-Identifier: Apache-2.0
// The commit of programs that are tests: they are not linked again for each new one.
#include "base/program.h"

namespace hearth {
std::string_view source_commit() { return "of a test"; }
}  // namespace hearth
