// SPDX-License-Identifier: Apache-2.0
// The bytes of tensors on their way from a source to a target, a few rows at a time: memory does not grow with the
// model.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/copy_tree.h"
#include "checkpoint/load.h"
#include "mesh/tensor_box.h"

namespace hearth::convert {

// Values of a new matrix: N(0, std), cut at +-bound where bound is above 0. They depend on its name alone.
struct Drawn {
  double std, bound;
};

// A tensor to write: its name and type in the target.
struct Transfer {
  std::string from;  // its name in the source
  mesh::TensorInfo to;
  std::optional<Drawn> drawn{};  // the source has no such tensor
};

// Another thread may read it: see commands/progress_line.h.
struct ConvertProgress {
  std::atomic<int64_t> done_bytes{0}, all_bytes{0};  // of the target
  CopyProgress upload;                               // of a target in a store, after it is written
};

int64_t bytes_of(const mesh::TensorInfo& info);

// Reads a tensor in portions of rows, and gives each one to `write` in order, in the target's type. A second thread
// reads the next portions meanwhile: `write`, which the caller's thread runs, must not use the reader. Throws
// user_error for an element that is NaN or infinite, or that becomes infinite in the target's type.
void transfer(checkpoint::Reader& reader, const Transfer& tensor, ConvertProgress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write);
// The same for a part of the tensor.
void transfer(checkpoint::Reader& reader, const Transfer& tensor, const mesh::Box& part, ConvertProgress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write);

}  // namespace hearth::convert
