// SPDX-License-Identifier: Apache-2.0
// Finds every error of a run that can be known before it begins, and reports all of them together.
//
// An error skips only the checks that depend on the faulty part. Checks of the mask token and of the number of token
// weights need the data's tokenizer, so at least one source must open. The mixture needs all sources. Memory, float8
// and the shapes of an initial checkpoint need a valid model. Parameter names do not depend on widths, so patterns are
// always checked against them. If there are other errors, an initial checkpoint is searched for NaN here; otherwise
// Start::fill does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/run_shape.h"
#include "run/run.h"

namespace hearth::run {

// The parts of a Run.
struct Preflight {
  config::RunConfig config;  // with absolute paths
  at::Device device = at::kCPU;
  int64_t threads = 0;
  std::optional<data::TrainingData> data;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::vector<ValidationData> validation;
  std::vector<float> token_weights;
  std::string token_weights_hash;
  data::LabelRule labels;
  plan::RunShape shape;
  std::vector<bool> trained;
  plan::MemoryPlan memory;
};

// Makes paths of data absolute, so a checkpoint finds its data from any working directory.
config::RunConfig with_absolute_paths(config::RunConfig config);

// Throws (config::throw_all) loaded.problems together with the errors found here. Otherwise every field is filled.
Preflight check_run(const config::LoadResult& loaded);

}  // namespace hearth::run
