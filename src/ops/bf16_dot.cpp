#include "ops/bf16_dot.h"

#include <hwy/detect_compiler_arch.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hearth::ops {

namespace {

bool is_hidden = false;

bool processor_has_it() {
#if HWY_ARCH_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 5) != 0;  // AVX512_BF16
#else
  return false;
#endif
}

}  // namespace

bool has_bf16_dot() {
  static const bool processor_has = processor_has_it();
  return processor_has && !is_hidden;
}

void hide_bf16_dot_for_test(bool hide) { is_hidden = hide; }

}  // namespace hearth::ops
