// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/scratch.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"

namespace hearth::ops {
namespace {

std::atomic<int64_t> held_bytes = 0;

struct Buffer {
  std::byte* memory = nullptr;
  int64_t size_bytes = 0;

  ~Buffer() { release(); }
  void release() {
    std::free(memory);
    held_bytes -= size_bytes;
    memory = nullptr;
    size_bytes = 0;
  }
};

}  // namespace

std::byte* thread_scratch(Scratch purpose, int64_t size_bytes) {
  constexpr int64_t kAlignment = 64;
  thread_local Buffer buffers[3];
  Buffer& buffer = buffers[static_cast<size_t>(purpose)];
  if (size_bytes > buffer.size_bytes) {
    buffer.release();
    const int64_t rounded = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    buffer.memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(rounded)));
    if (buffer.memory == nullptr) {
      throw system_error(fmt::format("cannot allocate {} MiB of working memory for a kernel", size_bytes >> 20), ENOMEM,
                         "lower training.local_batch_size, training.seq_len or the size of the model");
    }
    buffer.size_bytes = rounded;
    held_bytes += rounded;
  }
  return buffer.memory;
}

int64_t scratch_bytes() { return held_bytes; }

}  // namespace hearth::ops
