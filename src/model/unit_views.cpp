#include "model/unit_views.h"

#include "base/error.h"

namespace hearth::model {

at::Tensor parameter_view(const at::Tensor& flat, const plan::Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.numel).view(parameter.shape);
}

BlockViews block_views(const at::Tensor& flat, const plan::ParameterPlan& plan, int64_t layer) {
  const plan::Unit& unit = plan.units[static_cast<size_t>(1 + layer)];
  const plan::Parameter* p = &plan.parameters[static_cast<size_t>(unit.first_parameter)];
  // The order in which plan::parameter_plan lays out a block.
  enum { kAttentionNorm, kWq, kWk, kWv, kWo, kFfnNorm, kW1, kW3, kW2, kCount };
  HEARTH_CHECK(unit.num_parameters == kCount && flat.numel() >= unit.numel, "layer {}", layer);
  // Several parameters that lie without a gap, as one matrix.
  auto stacked = [&](int first, int last) {
    int64_t rows = 0;
    for (int i = first; i <= last; ++i) rows += p[i].shape[0];
    const int64_t columns = p[first].shape[1];
    return flat.narrow(0, p[first].offset, rows * columns).view({rows, columns});
  };
  return {parameter_view(flat, p[kAttentionNorm]), stacked(kWq, kWv), parameter_view(flat, p[kWo]),
          parameter_view(flat, p[kFfnNorm]),       stacked(kW1, kW3), parameter_view(flat, p[kW2])};
}

}  // namespace hearth::model
