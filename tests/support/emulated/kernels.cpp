// SPDX-License-Identifier: Apache-2.0
// The GPU kernels, compiled for the host, as steps of the emulated device's streams.
#include "kernels/kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "support/emulated/queues.h"

namespace hearth::test {
namespace {

const kernels::Table* real = nullptr;

template <auto kEntry>
struct Late;
template <class... Arguments, int (*kernels::Table::*kEntry)(void*, Arguments...)>
struct Late<kEntry> {
  static int call(void* stream, Arguments... arguments) {
    emulated::Queues::all().enqueue(static_cast<emulated::Queue*>(stream), {.run = [=] {
                                      const int code = (real->*kEntry)(nullptr, arguments...);
                                      if (code == 0) return;
                                      std::fprintf(stderr, "a kernel fails: %s\n", real->error_text(code));
                                      std::abort();
                                    }});
    return 0;
  }
};

}  // namespace

const kernels::Table* EmulatedDevice::late(const kernels::Table* table) {
  static kernels::Table late = *table;
  real = table;
#define HEARTH_LATE(entry) late.entry = Late<&kernels::Table::entry>::call
  HEARTH_LATE(embedding_forward);
  HEARTH_LATE(embedding_backward);
  HEARTH_LATE(norm_forward);
  HEARTH_LATE(norm_backward);
  HEARTH_LATE(attention_forward);
  HEARTH_LATE(attention_backward);
  HEARTH_LATE(add_bias);
  HEARTH_LATE(add_rows);
  HEARTH_LATE(rope);
  HEARTH_LATE(activation_forward);
  HEARTH_LATE(activation_backward);
  HEARTH_LATE(cross_entropy);
  HEARTH_LATE(cross_entropy_statistics);
  HEARTH_LATE(vocabulary_parallel_cross_entropy);
  HEARTH_LATE(sum_of_squares);
  HEARTH_LATE(adamw);
  HEARTH_LATE(total_losses);
  HEARTH_LATE(decide);
  HEARTH_LATE(decode_attention);
  HEARTH_LATE(float8_rows);
  HEARTH_LATE(float8_columns);
  HEARTH_LATE(float8_rows_and_columns);
#undef HEARTH_LATE
  return &late;
}

std::string EmulatedDevice::nccl_library() {
  Dl_info info{};
  ::dladdr(&real, &info);
  return info.dli_fname;
}

}  // namespace hearth::test
