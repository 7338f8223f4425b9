// SPDX-License-Identifier: Apache-2.0
// Muon for the matrices of the blocks (plan/muon.h). It updates each matrix by itself, even if several are stored in
// one buffer. A matrix's update is its gradients' momentum, orthogonalised: all singular values become about 1.
//
// A matrix of `rows` outputs and `columns` inputs, with the step's lr times its group's factor:
//   w = (1 - lr * weight_decay) * w - lr * muon_lr_factor * orthogonalised
// The decay takes the rate without muon_lr_factor. The formulas are torch.optim.Muon's. Products have the computation's
// type, whereas PyTorch's are always in bfloat16.
//
// A rank's part of a matrix cannot be orthogonalised by itself. Each rank computes the momentum of its elements, and
// the ranks of a replica gather a unit's momentum. A matrix's owner (plan/muon.h) orthogonalises it. A reduction of the
// owners' results gives each rank its elements. The result has the same bits for any number of ranks.
//
// Ranks that share the layers have parts of matrices. The owners of a matrix's parts gather them, and each
// orthogonalises the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "ops/muon.h"
#include "parallel/sharded_weights.h"
#include "plan/optimizer/parameter_groups.h"

namespace hearth::optim {

// original: sqrt(max(1, rows / columns)), Keller Jordan's. match_rms_adamw: 0.2 sqrt(max(rows, columns)), Moonlight's
// (arXiv 2502.16982): an update then has the root mean square of an AdamW update.
double muon_lr_factor(config::MuonAdjustLrFn rule, int64_t rows, int64_t columns);

class Muon {
 public:
  // Borrows `weights`. Allocates the scratch. Throws as parameter_settings does.
  Muon(const config::Optimizer& config, parallel::ShardedWeights& weights);

  // Updates masters and momentum of its matrices. Otherwise the same as AdamW::step, but Collective over shards, and
  // over the ranks that share the layers.
  void step(double lr, const at::Tensor& decision);

  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  // Writes the momentum of this rank's elements of a matrix to update_N; apply() updates the elements with it.
  void add_momentum(int64_t index, const at::Tensor& update_N, const at::Tensor& decision);
  void apply(int64_t index, const at::Tensor& update_N, double lr, const at::Tensor& decision);
  // Orthogonalises a matrix of which this rank has `part_N`. Collective over the ranks that share the layers.
  void orthogonalize(const plan::Parameter& matrix, const at::Tensor& part_N, const at::Tensor& decision);
  // The matrices of a unit that this rank has alone, and of one that ranks share.
  void step_own(int64_t unit, double lr, const at::Tensor& decision);
  void step_shared(int64_t number, double lr, const at::Tensor& decision);

  config::Optimizer config_;
  parallel::ShardedWeights& weights_;
  std::vector<plan::ParameterSettings> settings_;  // of each parameter
  std::vector<int64_t> owners_;                    // the rank that owns each parameter, or -1
  int64_t memory_bytes_ = 0;
  at::Tensor update_;         // flat: plan::MuonScratch::update
  at::Tensor parts_, whole_;  // flat: plan::MuonScratch::shared; empty where no ranks share the layers
  ops::NewtonSchulzScratch scratch_;
};

}  // namespace hearth::optim
