#include "model/unit_views.h"

#include "base/error.h"

namespace hearth::model {

at::Tensor parameter_view(const at::Tensor& flat, const plan::Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.numel).view(parameter.part.sizes);
}

BlockViews block_views(const at::Tensor& flat, const plan::ParameterPlan& plan, int64_t layer) {
  const plan::Unit& unit = plan.units[static_cast<size_t>(1 + layer)];
  HEARTH_CHECK(flat.numel() >= unit.numel, "layer {}", layer);
  const plan::Parameter* next = &plan.parameters[static_cast<size_t>(unit.first_parameter)];
  const plan::Parameter* const end = next + unit.num_parameters;
  // The next parameter, if it has this name; else undefined.
  auto vector = [&](std::string_view name) {
    return next != end && next->name.ends_with(name) ? parameter_view(flat, *next++) : at::Tensor();
  };
  // The next `count` parameters as one matrix. There must be no gap between them.
  auto stacked = [&](int count) {
    int64_t rows = 0;
    const int64_t columns = next->part.sizes[1], offset = next->offset;
    for (; count > 0; --count) rows += (next++)->part.sizes[0];
    return flat.narrow(0, offset, rows * columns).view({rows, columns});
  };
  BlockViews views;  // in the layout of a block in plan::parameter_plan
  views.attention_norm_D = vector(".attention_norm.weight");
  views.wqkv_ND = stacked(3);
  if (next != end && next->name.ends_with(".wq.bias")) {
    views.bqkv_N = flat.narrow(0, next->offset, views.wqkv_ND.size(0));
    next += 3;
  }
  views.q_norm_K = vector(".q_norm.weight");
  views.k_norm_K = vector(".k_norm.weight");
  views.wo_DN = stacked(1);
  views.ffn_norm_D = vector(".ffn_norm.weight");
  views.w13_FD = stacked(2);
  views.w2_DF = stacked(1);
  HEARTH_CHECK(next == end, "layer {} has {} parameters", layer, unit.num_parameters);
  return views;
}

at::Tensor final_norm_view(const at::Tensor& flat, const plan::ParameterPlan& plan) {
  const auto first = static_cast<size_t>(plan.units.back().first_parameter);
  const bool norm = first < plan.parameters.size() && plan.parameters[first].name == "norm.weight";
  return norm ? parameter_view(flat, plan.parameters[first]) : at::Tensor();
}

}  // namespace hearth::model
