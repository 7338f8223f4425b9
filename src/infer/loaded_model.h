// A checkpoint, opened to be used: for eval and generate.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/group.h"
#include "config/config.h"
#include "parallel/sharded_weights.h"
#include "plan/run_shape.h"
#include "tokenizer/tokenizer.h"

namespace hearth::infer {

struct LoadedModel {
  Path folder;  // of the checkpoint
  checkpoint::Manifest manifest;
  config::RunConfig config;  // as it was when the checkpoint was written
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  plan::ModelShape shape;
  plan::ParameterPlan plan;
  DType dtype;  // of computation
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<parallel::ShardedWeights> weights;  // whole; every checksum was right
};

// Onto `device`, as ops::open_device knows it. `folder` is a checkpoint, or a run folder or its checkpoints/, of which
// the newest is taken. Throws user_error where there is no checkpoint of ours, damaged() where it is not whole. The
// result is not moved: weights point into it.
std::unique_ptr<LoadedModel> load_model(const Path& folder, const std::string& device = "cpu");

// What the model saw before each document's first token: a prompt begins a document.
std::vector<int32_t> document_start(const LoadedModel& model);

}  // namespace hearth::infer
