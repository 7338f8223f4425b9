// SPDX-License-Identifier: Apache-2.0
// Kernels are compiled for several instruction sets. A test uses this machine's choice unless it asks for each.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "ops/cpu/bf16_dot.h"

namespace hearth::ops::test {

// Runs `body` with each instruction set that this machine has and the kernels are compiled for. On AVX-512 with
// AVX512_BF16 it runs with bfloat16 products by pairs and without. What is not `small` leaves out instruction sets
// without AVX2, which need a second for what the others do in a tenth.
template <class Body>
void with_each_target(const Body& body, bool small = true) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (!small && target > HWY_AVX2) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (const bool by_pairs : {false, true}) {
      if (by_pairs && (target != HWY_AVX3 || !has_bf16_dot())) continue;
      SCOPED_TRACE(by_pairs ? "bfloat16 by pairs" : "bfloat16 as floats");
      use_bf16_dot_for_test(by_pairs);
      body();
    }
  }
  use_bf16_dot_for_test(std::nullopt);
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace hearth::ops::test
