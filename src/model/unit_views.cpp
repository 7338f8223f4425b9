#include "model/unit_views.h"

#include "base/error.h"

namespace hearth::model {

at::Tensor parameter_view(const at::Tensor& flat, const plan::Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.numel).view(parameter.part.sizes);
}

BlockViews block_views(const at::Tensor& flat, const plan::ParameterPlan& plan, int64_t layer) {
  const plan::Unit& unit = plan.units[static_cast<size_t>(1 + layer)];
  HEARTH_CHECK((unit.num_parameters == 9 || unit.num_parameters == 7) && flat.numel() >= unit.numel, "layer {}", layer);
  const bool norms = unit.num_parameters == 9;
  const plan::Parameter* next = &plan.parameters[static_cast<size_t>(unit.first_parameter)];
  // The next `count` parameters as one matrix. There must be no gap between them.
  auto stacked = [&](int count) {
    int64_t rows = 0;
    const int64_t columns = next->part.sizes[1], offset = next->offset;
    for (; count > 0; --count) rows += (next++)->part.sizes[0];
    return flat.narrow(0, offset, rows * columns).view({rows, columns});
  };
  BlockViews views;  // in the layout of a block in plan::parameter_plan
  if (norms) views.attention_norm_D = parameter_view(flat, *next++);
  views.wqkv_ND = stacked(3);
  views.wo_DN = stacked(1);
  if (norms) views.ffn_norm_D = parameter_view(flat, *next++);
  views.w13_FD = stacked(2);
  views.w2_DF = stacked(1);
  return views;
}

at::Tensor final_norm_view(const at::Tensor& flat, const plan::ParameterPlan& plan) {
  const auto first = static_cast<size_t>(plan.units.back().first_parameter);
  const bool norm = first < plan.parameters.size() && plan.parameters[first].name == "norm.weight";
  return norm ? parameter_view(flat, plan.parameters[first]) : at::Tensor();
}

}  // namespace hearth::model
