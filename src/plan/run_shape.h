// SPDX-License-Identifier: Apache-2.0
// The shape of a run: the model's shape, its parameters, element types and memory. `hearth plan`, training, evaluation,
// generation and the benchmarks all assemble it here, from the configuration and facts about the data.
#pragma once

#include <cstdint>
#include <span>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::plan {

// Facts about a run's data that change its shape. data/order/data_facts.h reads them from manifests.
struct DataFacts {
  int64_t vocab_size = 0;      // of the tokenizer; replaces model.vocab_size = 0; 0: not known
  bool weighs_labels = false;  // the training or validation data weight their tokens
  double counted_share = 1;    // the training data's share of tokens with a weight other than 0
};

enum class Workload { kTraining, kInference };

// Throws user_error if a size does not divide. V is 0 if neither side gives the vocabulary's size.
ModelShape model_shape(const config::RunConfig& config, const DataFacts& data, Workload work = Workload::kTraining);

// Describes the whole model, also if ranks share the layers.
struct RunShape {
  ModelShape model;
  ParameterPlan parameters;
  Precision precision = DType::kFloat32;
};

// Throws the errors of model_shape and, for a training, of model_part; and user_error if the vocabulary's size is not
// known.
RunShape run_shape(const config::RunConfig& config, const DataFacts& data, Workload work = Workload::kTraining);

// The memory of a training on training.device, on the rank that needs most. `memory_bytes`: the device's memory; on a
// CPU all ranks share it. `levels`: what each layer recomputes, in place of memory.recompute; empty: not given.
MemoryPlan memory_plan(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                       std::span<const Recompute> levels = {});

}  // namespace hearth::plan
