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

std::vector<bool> trained_muon_matrices(const config::RunConfig& config, const ParameterPlan& plan) {
  std::vector<bool> matrices = muon_matrices(config.optimizer, plan);
  const std::vector<bool> trained = trained_parameters(config.checkpoint.freeze, plan);
  for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = matrices[i] && trained[i];
  return matrices;
}

double newton_schulz_flops(const config::RunConfig& config, const ParameterPlan& plan) {
  const std::vector<bool> matrices = trained_muon_matrices(config, plan);
  double flops = 0;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (!matrices[i]) continue;
    const std::vector<int64_t>& shape = plan.parameters[i].shape;
    const auto R = static_cast<double>(std::min(shape[0], shape[1])),
               C = static_cast<double>(std::max(shape[0], shape[1]));
    flops += 2 * R * R * (2 * C + R);  // the Gram matrix, its square, and the polynomial's product
  }
  return flops * static_cast<double>(config.optimizer.muon_ns_steps);
}

}  // namespace hearth::plan
