// SPDX-License-Identifier: Apache-2.0
// The transformer's forward token by token, with a cache of keys and values, for generation.
//
// Rows are independent sequences, each with its own cache and length. One call computes one token for each of several
// rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "decode/layer_cache.h"
#include "model/activations.h"
#include "model/weights.h"

namespace hearth::decode {

class Decoder {
 public:
  // Room for `capacity` positions in each of `rows` sequences.
  Decoder(const plan::ModelShape& shape, const plan::ParameterPlan& plan, model::Weights& weights, int64_t capacity,
          DType dtype, at::Device device = at::kCPU, int64_t rows = 1);

  // Appends tokens to a row and returns the logits after the last of them, [V]; valid until the next call.
  // size(row) + tokens.size() must not exceed the capacity.
  at::Tensor append(std::span<const int32_t> tokens, int64_t row = 0);

  // Appends one token to each of these rows, which are different and not empty. Returns the logits after each, [N, V];
  // valid until the next call. For several rows it is faster than a call for each, because the weights are read once.
  at::Tensor append_to_each(std::span<const int64_t> rows, std::span<const int32_t> tokens);

  // Whether a row must be cleared, and all of its tokens appended again, before so many more are: its cached keys were
  // rotated by the short factors of longrope, and the longer sequence has the long ones. append() and append_to_each()
  // check that nobody forgot it.
  bool must_begin_again(int64_t tokens, int64_t row = 0) const;

  // Forgets all positions of a row.
  void clear(int64_t row = 0) { sizes_[static_cast<size_t>(row)] = 0; }
  int64_t size(int64_t row = 0) const { return sizes_[static_cast<size_t>(row)]; }
  int64_t rows() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t capacity() const { return capacity_; }

 private:
  // Where the tokens of a call go: all into one row, one after the other, or each into a row of its own.
  struct Places {
    int64_t row = 0;
    // If each token goes into a row of its own: by the lengths of the layers' caches. Empty: all tokens go into `row`.
    std::map<int64_t, LayerCache::Slots> slots{};
    model::ModelRopes ropes{};  // a row for each token
  };
  Places places_of(std::span<const int64_t> rows) const;
  // The table's row for a position of a sequence that has `length` positions now.
  int64_t table_row(int64_t position, int64_t length) const;
  // The logits after the last tokens, [logits, V].
  at::Tensor forward(const model::Activations& activations, std::span<const int32_t> tokens, const Places& places,
                     int64_t logits);
  void attend(int64_t layer, const Places& places, const at::Tensor& out, const at::Tensor& qkv,
              const at::Tensor& sinks) const;
  std::unique_ptr<model::Activations> activations(int64_t tokens, int64_t logits) const;

  const plan::ModelShape shape_;
  const plan::ParameterPlan& plan_;
  model::Weights& weights_;
  int64_t capacity_;
  std::vector<int64_t> sizes_;  // of each row
  DType dtype_;
  at::Device device_;
  model::ModelRopes ropes_;         // tables of `capacity` rows; with longrope, then as many with the long factors
  std::vector<LayerCache> caches_;  // of the layers
  std::unique_ptr<model::Activations> of_row_;                   // sized for the last append()
  std::map<int64_t, std::unique_ptr<model::Activations>> each_;  // key: the number of rows; only a few are kept
};

}  // namespace hearth::decode
