// Kernels are compiled for several instruction sets; a test runs what this machine would choose, unless it asks for
// each.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace hearth::ops::test {

// Runs `body` with each instruction set that this machine has and the kernels are compiled for.
template <class Body>
void with_each_target(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace hearth::ops::test
