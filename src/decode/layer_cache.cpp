// SPDX-License-Identifier: Apache-2.0
#include "decode/layer_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/attention.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::decode {

LayerCache::LayerCache(int64_t rows, int64_t capacity, int64_t window, int64_t G, int64_t K, DType dtype,
                       at::Device device)
    : window_(window < capacity ? window : 0),
      keys_(ops::zeros({rows, window_ > 0 ? window_ : capacity, G, K}, dtype, device)),
      values_(ops::zeros(keys_.sizes(), dtype, device)) {}

void LayerCache::attend(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        int64_t row, int64_t before, double scale, const at::Tensor& sinks) const {
  if (window_ > 0) return attend_in_ring(out, q, k, v, row, before, scale, sinks);
  const at::Tensor keys = keys_.narrow(0, row, 1), values = values_.narrow(0, row, 1);
  const int64_t N = q.size(1);
  ops::copy_(keys.narrow(1, before, N), k);
  ops::copy_(values.narrow(1, before, N), v);
  ops::decode_attention(out, q, keys, values, before + N, /*reach=*/-1, scale, sinks);
}

namespace {

// Calls body(slots of the ring, the positions that are there) for `count` positions from `first` on: in two pieces
// where they pass the ring's end. ring [1, length, G, K], positions [1, count, G, K].
template <class Body>
void for_each_piece(const at::Tensor& ring, const at::Tensor& positions, int64_t first, const Body& body) {
  const int64_t length = ring.size(1), count = positions.size(1), slot = first % length;
  const int64_t until_end = std::min(count, length - slot);
  body(ring.narrow(1, slot, until_end), positions.narrow(1, 0, until_end));
  if (until_end < count) body(ring.narrow(1, 0, count - until_end), positions.narrow(1, until_end, count - until_end));
}

}  // namespace

// A new position may see old ones that the ring forgets for it. So old and new ones are put in order first.
void LayerCache::attend_in_ring(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                int64_t row, int64_t before, double scale, const at::Tensor& sinks) const {
  const int64_t N = q.size(1), old = std::min(before, window_ - 1), kept = std::min(N, window_);
  const auto in_order = [&](const at::Tensor& cache, const at::Tensor& fresh) {
    if (old == 0) return fresh;
    const at::Tensor all = ops::empty({1, old + N, fresh.size(2), fresh.size(3)}, ops::dtype_of(fresh), fresh.device());
    for_each_piece(cache.narrow(0, row, 1), all.narrow(1, 0, old), before - old,
                   [](const at::Tensor& slots, const at::Tensor& positions) { ops::copy_(positions, slots); });
    ops::copy_(all.narrow(1, old, N), fresh);
    return all;
  };
  ops::decode_attention(out, q, in_order(keys_, k), in_order(values_, v), old + N, window_ - 1, scale, sinks);
  for (const auto& [cache, fresh] : {std::pair(keys_, k), std::pair(values_, v)})
    for_each_piece(cache.narrow(0, row, 1), fresh.narrow(1, N - kept, kept), before + N - kept,
                   [](const at::Tensor& slots, const at::Tensor& positions) { ops::copy_(slots, positions); });
}

LayerCache::Slots LayerCache::slots(std::span<const int64_t> rows_N, std::span<const int64_t> sizes_N) const {
  std::vector<int64_t> index;
  std::vector<int32_t> rows, lengths;
  for (size_t n = 0; n < rows_N.size(); ++n) {
    index.push_back(rows_N[n] * length() + sizes_N[n] % length());
    rows.push_back(static_cast<int32_t>(rows_N[n]));
    lengths.push_back(static_cast<int32_t>(std::min(sizes_N[n] + 1, length())));
  }
  const at::Device device = keys_.device();
  return {ops::from_int64(index, device), ops::from_int32(rows, device), ops::from_int32(lengths, device)};
}

void LayerCache::attend_to_each(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const Slots& slots, double scale, const at::Tensor& sinks) const {
  ops::scatter_rows(keys_.flatten(0, 1), k, slots.index_N);
  ops::scatter_rows(values_.flatten(0, 1), v, slots.index_N);
  ops::decode_attention_of_rows(out, q, keys_, values_, slots.rows_N, slots.lengths_N, scale, sinks);
}

}  // namespace hearth::decode
