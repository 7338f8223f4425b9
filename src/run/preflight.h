// Everything that can be known to be wrong with a run before it begins, found before any of it is said.
//
// A fault hides only what follows from the faulty itself. What the data's tokenizer decides (the mask token, the number
// of token weights) waits for one source that opens; the mixture for all of them; memory, float8 and the shapes of an
// initial checkpoint for a model that can be. Names of parameters depend on no width, so patterns are always held
// against them, and an initial checkpoint is always searched for NaN.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/run_shape.h"
#include "run/run.h"

namespace hearth::run {

// What a Run is made of.
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

// Throws (config::throw_all) loaded.problems and what is found here; returns with everything in its place.
Preflight check_run(const config::LoadResult& loaded);

}  // namespace hearth::run
