// SPDX-License-Identifier: Apache-2.0
// Tensors as files of plain numbers, which the oracles in Python read and write.
#pragma once

#include <ATen/ops/from_blob.h>

#include <string>

#include "base/file.h"
#include "ops/tensor.h"

namespace hearth::model {

inline void write_bytes(const Path& path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  File file = File::create(path);
  file.write(ops::bytes_of(whole));
  file.close();
}

inline at::Tensor read_floats(const Path& path, at::IntArrayRef shape) {
  std::string bytes = read_file(path);
  return at::from_blob(bytes.data(), shape, at::kFloat).clone();
}

}  // namespace hearth::model
