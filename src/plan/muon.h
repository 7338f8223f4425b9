// SPDX-License-Identifier: Apache-2.0
// The matrices that Muon updates (optim/muon.h), and the scratch of their Newton-Schulz iterations.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "plan/parameters.h"
#include "plan/precision.h"
#include "plan/sharding.h"

namespace hearth::plan {

// For each parameter whether Muon updates it: with optimizer.name = "Muon" the matrices of the blocks. AdamW updates
// token embedding, output matrix and norms.
std::vector<bool> muon_matrices(const config::Optimizer& optimizer, const ParameterPlan& plan);

// The sizes of one rank's scratch, in elements. It is shared by all matrices in turn.
struct MuonScratch {
  int64_t update = 0;  // the largest matrix; if ranks own shards, the largest whole unit with a matrix
  int64_t matrix = 0;  // the largest matrix
  int64_t square = 0;  // the largest square of a matrix's shorter side
  int64_t shared = 0;  // the largest matrix, where ranks have parts of it

  // The update and two shared matrices have the gradients' type; two matrices and two squares that of computation.
  int64_t num_bytes(const Precision& precision) const;
};

// For the parameters whose flag is true. All sizes are 0 if there is no such parameter.
MuonScratch muon_scratch(const std::vector<bool>& matrices, const ParameterPlan& plan, const Shards& shards);

// The rank that orthogonalises each parameter whose flag is true; -1 for the others. The matrices of a unit are shared
// by cost, the dearest first: the ranks work on one unit at a time.
std::vector<int64_t> muon_owners(const std::vector<bool>& matrices, const ParameterPlan& plan, const Shards& shards);

// The matrices that a run updates with Muon: muon_matrices() without those that checkpoint.freeze matches.
std::vector<bool> trained_muon_matrices(const config::RunConfig& config, const ParameterPlan& plan);

// FLOPs of a step's Newton-Schulz iterations. They do not depend on the number of tokens.
double newton_schulz_flops(const config::RunConfig& config, const ParameterPlan& plan);

}  // namespace hearth::plan
