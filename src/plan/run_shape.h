// What a run is: the model's shape, its parameters, the element types and the memory. `hearth plan`, training,
// evaluation, generation and the benchmarks all assemble it here, from the configuration and from what the data say.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::plan {

// What a run's data say about its shape. data/order/data_facts.h reads it from manifests.
struct DataFacts {
  int64_t vocab_size = 0;      // of the tokenizer, which fills model.vocab_size = 0; 0: not known
  bool weighs_labels = false;  // the training data, or what the loss is measured on, give weights to their tokens
  double counted_share = 1;    // of the training data's tokens: those whose weight is not 0
};

enum class Work { kTraining, kInference };

// Throws user_error where a size does not divide. The vocabulary's size is 0 where neither side gives it.
ModelShape model_shape(const config::RunConfig& config, const DataFacts& data, Work work = Work::kTraining);

struct RunShape {
  ModelShape model;
  ParameterPlan parameters;
  Precision precision = DType::kFloat32;
};

// Throws what model_shape throws, and user_error where the vocabulary's size is not known.
RunShape run_shape(const config::RunConfig& config, const DataFacts& data, Work work = Work::kTraining);

// The memory of a training on training.device. `memory_bytes`: what the device has; on a CPU all ranks share it.
MemoryPlan memory_plan(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes);

}  // namespace hearth::plan
