// Weights of one process without sharding, filled by init_unit: the plainest implementation of model::Weights.
#pragma once

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

  std::vector<int64_t> ready;  // units in the order in which they were announced

 private:
  std::vector<at::Tensor> values_, gradients_;
};

}  // namespace hearth::test
