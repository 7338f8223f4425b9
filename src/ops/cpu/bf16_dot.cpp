// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/bf16_dot.h"

#include "ops/cpu/processor.h"

namespace hearth::ops {

namespace {

std::optional<bool> told_by_test;

}  // namespace

bool has_bf16_dot() { return processor().avx512_bf16; }

bool uses_bf16_dot() {
  const Processor& p = processor();
  return p.avx512_bf16 && told_by_test.value_or(!(p.is_intel && p.avx512_fp16));
}

void use_bf16_dot_for_test(std::optional<bool> use) { told_by_test = use; }

}  // namespace hearth::ops
