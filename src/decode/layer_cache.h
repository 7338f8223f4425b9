// SPDX-License-Identifier: Apache-2.0
// The keys and values that one layer has seen, for attention token by token. A layer with a window keeps the window
// only, in a ring: position p is in slot p % window. Rotated keys contain their positions, so their order in memory
// does not matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace hearth::decode {

class LayerCache {
 public:
  // Room for `capacity` positions in each of `rows` sequences, or for `window` positions if that is less. window 0: the
  // layer has none. G heads of width K.
  LayerCache(int64_t rows, int64_t capacity, int64_t window, int64_t G, int64_t K, DType dtype, at::Device device);

  int64_t length() const { return keys_.size(1); }  // slots of a row

  // The next N positions of a row that has `before`: adds k and v [1, N, G, K], and attends with q -> out [1, N, H, K].
  // `scale`, `sinks`: ops/attention.h.
  void attend(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row,
              int64_t before, double scale, const at::Tensor& sinks) const;

  // Where the next position of each of N rows goes, and how many slots it then sees; on the device.
  struct Slots {
    at::Tensor index_N;            // int64, into [rows * length]
    at::Tensor rows_N, lengths_N;  // int32
  };
  // `sizes_N`: the positions that each of the rows has.
  Slots slots(std::span<const int64_t> rows_N, std::span<const int64_t> sizes_N) const;
  // One position for each of N rows: k and v [N, G, K], q and out [N, H, K].
  void attend_to_each(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const Slots& slots, double scale, const at::Tensor& sinks) const;

 private:
  void attend_in_ring(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row,
                      int64_t before, double scale, const at::Tensor& sinks) const;

  const int64_t window_;      // 0: a row is no ring
  at::Tensor keys_, values_;  // [rows, length, G, K]
};

}  // namespace hearth::decode
