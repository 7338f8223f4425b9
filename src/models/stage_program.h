// SPDX-License-Identifier: Apache-2.0
// The layers of a model, or of a stage of a pipeline, between the token embedding and the loss. Encoders may norm their
// embeddings, and may have BERT's prediction head (arXiv 1810.04805, 2412.13663):
//
//   logits = norm(gelu(h W^T)) E^T + b   with h = norm(x)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/block.h"
#include "models/parameter_list.h"
#include "models/program.h"
#include "models/shape.h"

namespace hearth::models {

// The parameters of the model's units, in forward order: the token embedding, each block, and behind it the block's
// experts if it has any, and the final norm with the prediction head and the output matrix. With tied weights the
// embedding is the output matrix, too. The bias of the logits is in the unit of the output matrix.
struct UnitSpec {
  std::string prefix;  // of the names: "layers.3."
  std::vector<ParameterSpec> parameters;
  int64_t layer = -1;  // of a block or its experts; else -1
  bool of_experts = false;
};
std::vector<UnitSpec> unit_specs(const ModelShape& whole);

// The program of a stage. `stage` may be a rank's part. `recompute`: one level per layer of the stage; empty: none.
Program stage_program(const ModelShape& stage, const MicroBatchSize& size, Backward backward,
                      std::span<const Recompute> recompute, bool uses_cache = false);

}  // namespace hearth::models
