// The transformer's forward token by token, with a cache of keys and values, for generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/activations.h"
#include "model/unit_views.h"
#include "model/weights.h"

namespace hearth::model {

class Decoder {
 public:
  // Room for `capacity` positions of one sequence.
  Decoder(const plan::ModelShape& shape, const plan::ParameterPlan& plan, Weights& weights, int64_t capacity,
          DType dtype, at::Device device = at::kCPU);

  // Appends tokens and returns the logits after the last of them, [V]; valid until the next call.
  // size() + tokens.size() must not exceed the capacity.
  at::Tensor append(const std::vector<int32_t>& tokens);

  // Forgets all positions.
  void clear() { size_ = 0; }
  int64_t size() const { return size_; }
  int64_t capacity() const { return capacity_; }

 private:
  void attend(const Activations& activations, const BlockViews& weights, int64_t layer);

  const plan::ModelShape shape_;
  const plan::ParameterPlan& plan_;
  Weights& weights_;
  int64_t capacity_, size_ = 0;
  DType dtype_;
  at::Device device_;
  at::Tensor rope_CK_;
  std::vector<at::Tensor> keys_, values_;     // per layer, [1, capacity, G, K]
  std::unique_ptr<Activations> activations_;  // for the number of positions in the last call
};

}  // namespace hearth::model
