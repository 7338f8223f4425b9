// SPDX-License-Identifier: Apache-2.0
// Runs hearth as a user does.
#pragma once

#include <string>

#include "support/environment.h"

namespace hearth::test {

// `environment`: "NAME=value ...", or empty.
inline CommandResult run_hearth(const std::string& arguments, const std::string& environment = {}) {
  return run_command(environment + " " + hearth_binary() + " " + arguments);
}

}  // namespace hearth::test
