#include "plan/muon.h"

#include <algorithm>

#include "base/quantity.h"
#include "plan/name_pattern.h"

namespace hearth::plan {

std::vector<bool> muon_matrices(const config::Optimizer& optimizer, const ParameterPlan& plan) {
  std::vector<bool> matrices;
  for (const Parameter& p : plan.parameters)
    matrices.push_back(optimizer.name == config::OptimizerName::kMuon && p.shape.size() == 2 &&
                       p.name.starts_with("layers."));
  return matrices;
}

int64_t MuonScratch::num_bytes(const Precision& precision) const {
  constexpr int64_t kAlignmentBytes = 64;  // of ops::Arena
  const auto bytes = [](int64_t numel, DType dtype) { return round_up(numel * dtype_size(dtype), kAlignmentBytes); };
  return bytes(matrix, precision.gradients) + 2 * bytes(matrix, precision.compute) +
         2 * bytes(square, precision.compute);
}

MuonScratch muon_scratch(const config::RunConfig& config, const ParameterPlan& plan) {
  std::vector<bool> matrices = muon_matrices(config.optimizer, plan);
  const std::vector<bool> trained = trained_parameters(config.checkpoint.freeze, plan);
  for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = matrices[i] && trained[i];
  return muon_scratch(matrices, plan);
}

MuonScratch muon_scratch(const std::vector<bool>& matrices, const ParameterPlan& plan) {
  MuonScratch scratch;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (!matrices[i]) continue;
    const Parameter& p = plan.parameters[i];
    const int64_t shorter = std::min(p.shape[0], p.shape[1]);
    scratch.matrix = std::max(scratch.matrix, p.numel);
    scratch.square = std::max(scratch.square, shorter * shorter);
  }
  return scratch;
}

}  // namespace hearth::plan
