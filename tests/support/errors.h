// SPDX-License-Identifier: Apache-2.0
// Expected exceptions.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace hearth::test {

// The Error that `body` throws; a test failure if it does not throw one.
template <typename Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return user_error("none");
}

}  // namespace hearth::test
