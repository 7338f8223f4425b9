// SPDX-License-Identifier: Apache-2.0
// Everything about a run that is known before its first step and never changes. Ranks differ only in their place, their
// part of the model and their threads.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "comm/control.h"
#include "config/chosen.h"
#include "config/load.h"
#include "data/batch/loader.h"
#include "data/order/training_data.h"
#include "data/shard/dataset.h"
#include "metrics/record.h"
#include "metrics/throughput.h"
#include "plan/memory.h"
#include "plan/optimizer/lr_schedule.h"
#include "plan/parameters.h"
#include "plan/pipeline_plan.h"
#include "plan/precision.h"
#include "plan/step_time.h"
#include "run/state.h"
#include "runfolder/run_folder.h"

namespace hearth::run {

// Documents for a validation loss.
struct ValidationData {
  std::string name;  // empty: its loss counts only in the mean over all sets
  data::Dataset dataset;
  std::string split;
};

struct Run {
  runfolder::RunFolder folder;
  config::RunConfig config;
  std::string config_toml;                // resolved, as in every checkpoint
  std::vector<config::ChosenKey> chosen;  // keys with another value than the default
  data::TrainingData data;
  std::vector<ValidationData> validation;  // empty: no validation
  data::LabelRule labels;                  // which labels are predicted
  std::vector<float> token_weights;        // weights of tokens in the loss; empty: all 1
  std::string token_weights_hash;          // of token_weights; empty without them
  std::string tokenizer_file;              // the data's tokenizer file, for checkpoints; empty: "bytes"
  std::string chat_template;               // template of the model from which the training started; empty: none
  plan::ModelShape shape;                  // of the whole model
  plan::ParameterPlan plan;                // the same
  plan::PipelinePlan pipeline;             // one rank: one stage
  mesh::Coordinates place;                 // of this rank
  int64_t expert_place;                    // of this rank among those with different experts
  std::vector<bool> trained;               // by parameter; false: checkpoint.freeze
  plan::Precision precision;
  at::Device device;        // the device of all computation
  plan::MemoryPlan memory;  // it fits this machine
  int64_t ranks, threads;   // threads: over all ranks
  int64_t rank_threads;     // of this rank
  int64_t global_batch_size, accumulation_steps, steps;
  double steps_per_epoch;
  plan::LrSchedule schedule;
  metrics::Throughput throughput;
  plan::StepTime expected_time;

  int64_t seq_len() const { return config.training.seq_len; }
  // This rank's part of the layers.
  plan::TensorPart tensor() const { return {place.tp, config.parallelism.tensor_parallel_degree}; }
  plan::ExpertPart experts() const { return {expert_place, config.parallelism.expert_parallel_degree}; }
  bool validates() const { return !validation.empty(); }
  uint64_t samples() const { return static_cast<uint64_t>(steps * global_batch_size); }  // of the whole run
  // The options for loading this rank's part of the data.
  data::LoaderOptions loading(uint64_t first_sample) const;
  // The manifest of a checkpoint.
  checkpoint::Manifest manifest(const RunProgress& progress, const metrics::StepRecord& record) const;
  // The error for a run that the guard stops at this step.
  Error diverged(int64_t step, const std::string& reason, double lr) const;
  // For the console, in at most 23 lines: the chosen keys and their meaning in numbers. With `verbose`: every key of
  // the resolved configuration, every source of the data and every part of the memory.
  std::string describe(bool verbose = false) const;
  // RUN/config.toml: the resolved configuration as a run file. It continues this run from any working directory.
  std::string run_file() const;
};

// Opens the data and the run folder and fills every field. Throws all errors of the run file and of the files it names
// together (run/preflight.h), before it makes the folder. Rank 0 takes the folder's lock, and measures the machine's
// GEMM rate with a pool of training.threads; on other ranks the rates are 0. Collective: all ranks throw the first
// rank's errors.
Run open_run(const config::LoadResult& loaded, comm::Control& control);
Run open_run(const config::RunConfig& config);  // one rank, a configuration without a file

}  // namespace hearth::run
