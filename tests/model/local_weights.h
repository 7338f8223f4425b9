// SPDX-License-Identifier: Apache-2.0
// Weights of one process without sharding, filled by init_unit: the plainest implementation of model::Weights.
#pragma once

#include <ATen/ops/linspace.h>

#include <vector>

#include "model/init.h"
#include "model/weights.h"
#include "ops/tensor.h"
#include "plan/parameters.h"

namespace hearth::test {

class LocalWeights : public model::Weights {
 public:
  LocalWeights(const plan::ParameterPlan& plan, DType dtype, uint64_t seed) {
    for (size_t u = 0; u < plan.units.size(); ++u) {
      const int64_t numel = plan.units[u].numel;
      const DType exact = dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
      values_.push_back(ops::zeros({numel}, dtype));
      gradients_.push_back(ops::zeros({numel}, exact));
      const at::Tensor initial = ops::zeros({numel}, exact);
      model::init_unit(initial, plan, static_cast<int64_t>(u), {0, numel}, seed);
      ops::copy_(values_.back(), initial);
    }
  }
  const at::Tensor& whole(int64_t unit) const { return values_.at(static_cast<size_t>(unit)); }
  at::Tensor gather(int64_t unit) override { return values_.at(static_cast<size_t>(unit)); }
  void prefetch(int64_t) override {}
  void release(int64_t) override {}
  at::Tensor gradient(int64_t unit) override { return gradients_.at(static_cast<size_t>(unit)); }
  void gradient_ready(int64_t unit) override { ready.push_back(unit); }

  // Vectors that are ones or zeros at first get other values, so that a missing factor or summand shows.
  void vary_vectors(const plan::ParameterPlan& plan) {
    for (const plan::Parameter& p : plan.parameters) {
      if (p.init != plan::Init::kOnes && p.init != plan::Init::kZeros) continue;
      const bool ones = p.init == plan::Init::kOnes;
      const double first = ones ? 0.5 : -0.1;  // biases have the size of the products that they are added to
      const at::Tensor values = ops::view_as(values_.at(static_cast<size_t>(p.unit)), p.offset, {p.numel});
      ops::copy_(values, at::linspace(first, ones ? 1.5 : 0.1, p.numel));
    }
  }

  std::vector<int64_t> ready;  // units in the order in which they were announced

 private:
  std::vector<at::Tensor> values_, gradients_;
};

}  // namespace hearth::test
