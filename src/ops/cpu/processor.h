// What this machine's processor is, as far as Highway does not say and kernels choose by it.
#pragma once

namespace hearth::ops {

struct Processor {
  bool is_intel = false, avx512_bf16 = false, avx512_fp16 = false, amx_bf16 = false;  // all false where it is no x86
};

const Processor& processor();

}  // namespace hearth::ops
