// SPDX-License-Identifier: Apache-2.0
#include "plan/muon.h"

#include <algorithm>
#include <utility>

#include "plan/name_pattern.h"

namespace hearth::plan {
namespace {

// A Newton-Schulz iteration has three products: the Gram matrix, its square, and the polynomial times the matrix.
double iteration_flops(const Parameter& matrix) {
  const auto R = static_cast<double>(std::min(matrix.shape[0], matrix.shape[1])),
             C = static_cast<double>(std::max(matrix.shape[0], matrix.shape[1]));
  return 2 * R * R * (2 * C + R);
}

}  // namespace

std::vector<bool> muon_matrices(const config::Optimizer& optimizer, const ParameterPlan& plan) {
  std::vector<bool> matrices;
  for (const Parameter& p : plan.parameters)
    matrices.push_back(optimizer.name == config::OptimizerName::kMuon && p.shape.size() == 2 &&
                       p.name.starts_with("layers."));
  return matrices;
}

int64_t MuonScratch::num_bytes(const Precision& precision) const {
  return aligned_bytes(update, precision.gradients) + 2 * aligned_bytes(shared, precision.gradients) +
         2 * aligned_bytes(matrix, precision.compute) + 2 * aligned_bytes(square, precision.compute);
}

MuonScratch muon_scratch(const std::vector<bool>& matrices, const ParameterPlan& plan, const Shards& shards) {
  MuonScratch scratch;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Parameter& p = plan.parameters[i];
    if (!matrices[i] || p.numel == 0) continue;
    const int64_t shorter = std::min(p.shape[0], p.shape[1]);
    const Unit& unit = plan.units[static_cast<size_t>(p.unit)];
    const int64_t ranks = shards.of(unit), whole = ranks * slice_numel(unit, ranks);
    scratch.update = std::max(scratch.update, ranks == 1 ? p.numel : whole);
    const int64_t numel = p.shape[0] * p.shape[1];
    scratch.matrix = std::max(scratch.matrix, numel);
    if (!p.is_whole()) scratch.shared = std::max(scratch.shared, numel);
    scratch.square = std::max(scratch.square, shorter * shorter);
  }
  return scratch;
}

std::vector<int64_t> muon_owners(const std::vector<bool>& matrices, const ParameterPlan& plan, const Shards& shards) {
  std::vector<int64_t> owners(matrices.size(), -1);
  for (const Unit& unit : plan.units) {
    std::vector<std::pair<double, size_t>> costs;
    for (int64_t i = unit.first_parameter; i < unit.first_parameter + unit.num_parameters; ++i) {
      const auto index = static_cast<size_t>(i);
      if (matrices[index] && plan.parameters[index].numel > 0)
        costs.emplace_back(-iteration_flops(plan.parameters[index]), index);
    }
    std::sort(costs.begin(), costs.end());  // the dearest first; equal ones in their order
    std::vector<double> work(static_cast<size_t>(shards.of(unit)));
    for (const auto& [cost, index] : costs) {
      const auto least = std::min_element(work.begin(), work.end());
      *least -= cost;
      owners[index] = least - work.begin();
    }
  }
  return owners;
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
    flops += iteration_flops(plan.parameters[i]);
  }
  return flops * static_cast<double>(config.optimizer.muon_ns_steps);
}

}  // namespace hearth::plan
