// SPDX-License-Identifier: Apache-2.0
// Properties of this machine's processor that decide between kernels and that Highway does not report.
#pragma once

namespace hearth::ops {

struct Processor {
  bool is_intel = false, avx512_bf16 = false, avx512_fp16 = false, amx_bf16 = false;  // all false if it is not an x86
};

const Processor& processor();

}  // namespace hearth::ops
