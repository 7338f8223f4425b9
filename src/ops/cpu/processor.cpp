// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/processor.h"

#include <hwy/detect_compiler_arch.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hearth::ops {

namespace {

// Bits as in Intel's manual, volume 2A, CPUID: leaf 7, EDX of subleaf 0 and EAX of subleaf 1.
Processor ask_processor() {
  Processor p;
#if HWY_ARCH_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  p.is_intel = __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_INTEL_ebx;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    p.amx_bf16 = (d & 1u << 22) != 0;
    p.avx512_fp16 = (d & 1u << 23) != 0;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) p.avx512_bf16 = (a & 1u << 5) != 0;
#endif
  return p;
}

}  // namespace

const Processor& processor() {
  static const Processor p = ask_processor();
  return p;
}

}  // namespace hearth::ops
