// SPDX-License-Identifier: Apache-2.0
// A checkpoint opened for eval and generate.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/group.h"
#include "config/config.h"
#include "model/activations.h"
#include "parallel/sharded_weights.h"
#include "plan/run_shape.h"
#include "tokenizer/tokenizer.h"

namespace hearth::infer {

struct LoadedModel {
  Path folder;  // of the checkpoint
  checkpoint::Manifest manifest;
  config::RunConfig config;  // as in the checkpoint
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  plan::ModelShape shape;
  plan::ParameterPlan plan;
  DType dtype;  // of the computation
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<parallel::ShardedWeights> weights;  // complete; every checksum was right

  model::ComputeOptions compute_options() const {  // for a Transformer
    return {.dtype = dtype, .loss_chunk_tokens = loss_chunk(), .device = weights->device()};
  }
  int64_t loss_chunk() const {
    return plan::loss_chunk(config.memory.loss_chunk_tokens, shape, dtype, !weights->device().is_cpu());
  }
};

// Loads a checkpoint onto `device`, a name that ops::open_device accepts. `folder` is a checkpoint, or a run folder or
// its checkpoints/, whose newest checkpoint is loaded. Throws user_error if there is no checkpoint with a manifest,
// damaged() if it is incomplete. Do not move the result: weights point into it.
std::unique_ptr<LoadedModel> load_model(const Path& folder, const std::string& device = "cpu");

}  // namespace hearth::infer
