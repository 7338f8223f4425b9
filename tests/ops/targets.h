// Kernels are compiled for several instruction sets; a test runs what this machine would choose, unless it asks for
// each.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "ops/bf16_dot.h"

namespace hearth::ops::test {

// Runs `body` with each instruction set that this machine has and the kernels are compiled for, and with AVX-512 as it
// is on a CPU that cannot multiply bfloat16.
template <class Body>
void with_each_target(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    if (target != HWY_AVX3 || !has_bf16_dot()) continue;
    SCOPED_TRACE("without the products of bfloat16");
    hide_bf16_dot_for_test(true);
    body();
    hide_bf16_dot_for_test(false);
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace hearth::ops::test
