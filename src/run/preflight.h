// Finds all errors of a run before it begins, and reports them together.
//
// An error hides only the checks that depend on the wrong value. Checks of the mask token and of token weights need one
// source that opens, the mixture needs all sources, and memory, float8 and the shapes of an initial checkpoint need a
// possible model. Parameter names depend on no width, so patterns are always matched, and an initial checkpoint is
// always searched for NaN.
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
  std::vector<ValidationSet> validation;
  std::vector<float> token_weights;
  std::string token_weights_hash;
  data::LabelRule labels;
  plan::RunShape shape;
  std::vector<bool> trained;
  plan::MemoryPlan memory;
};

// Throws loaded.problems and the errors found here together (config::throw_all). Otherwise returns all parts.
Preflight check_run(const config::LoadResult& loaded);

}  // namespace hearth::run
