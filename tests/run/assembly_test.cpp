// SPDX-License-Identifier: Apache-2.0
// `hearth plan` and a training assemble one run from one configuration and its data: the same shape, and the same
// memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/load.h"
#include "data/order/data_facts.h"
#include "plan/run_shape.h"
#include "run/run.h"
#include "support/hearth_command.h"
#include "train/tiny_run.h"

namespace hearth::run {
namespace {

using nlohmann::json;

// FOLDER/data: prompts and answers, of which the answers count.
void build_answers(const Path& folder) {
  std::string lines;
  for (uint64_t i = 0; i < 40; ++i)
    lines += json{{"prompt", train::tiny_text(i, 9)}, {"answer", train::tiny_text(100 + i, 4)}}.dump() + "\n";
  make_folders(folder);
  write_file_atomic(folder / "lines.jsonl", lines);
  data::BuildOptions options;
  options.out = folder / "data";
  options.paths = {folder / "lines.jsonl"};
  options.rules.read.text_keys = {"prompt", "answer"};
  options.rules.read.loss_keys = {"answer"};
  data::BuildProgress progress;
  data::build_dataset(options, progress);
}

json items(const std::vector<plan::MemoryItem>& of) {
  json list = json::array();
  for (const plan::MemoryItem& item : of) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return list;
}

struct Assembly : testing::Test {
  Assembly() {
    train::build_tiny_data(scratch / "text");
    build_answers(scratch / "answers");
    c = train::tiny_config(scratch);
    c.data.path = "text/data";
    c.memory.loss_chunk_tokens = 64;  // the head's buffers are alive when most is
  }
  json planned(config::RunConfig of, const std::string& options) const {
    write_file_atomic(scratch / "run.toml", config::to_toml(of));
    const auto result = test::run_hearth("plan " + (scratch / "run.toml").string() + " --json " + options);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return json::parse(result.output);
  }
  static double computed_flops(const run::Run& run) { return plan::computed_flops_per_token(run.shape, run.seq_len()); }
  // The facts that the plan reads from manifests, in the shape that the training opened.
  void expect_one_shape(const run::Run& run) const {
    const plan::RunShape shape = plan::run_shape(c, data::data_facts(c));
    EXPECT_EQ(shape.model.V, run.shape.V);
    EXPECT_EQ(shape.model.causal, run.shape.causal);
    EXPECT_EQ(shape.model.sparse_labels, run.shape.sparse_labels);
    EXPECT_EQ(shape.model.counted, run.shape.counted);
    EXPECT_EQ(shape.parameters.num_parameters, run.plan.num_parameters);
    EXPECT_EQ(shape.precision.compute, run.precision.compute);
  }
  test::ScratchFolder scratch;
  config::RunConfig c;
};

TEST_F(Assembly, WeightedDataHaveThePlanOfTheirTraining) {
  c.data.path = "answers/data";
  const run::Run run = open_run(c);
  EXPECT_TRUE(run.shape.sparse_labels);
  EXPECT_LT(run.shape.counted, 0.5);
  expect_one_shape(run);
  const json plan = planned(c, "--gemm-tflops 1");
  EXPECT_EQ(plan.at("compute").at("computed_flops_per_token"), computed_flops(run));
  EXPECT_EQ(plan.at("memory").at("items"), items(plan::memory_items(run.memory)));
  EXPECT_EQ(plan.at("memory").at("activations"), items(plan::peak_activations(run.memory)));
}

// A recorded micro-batch takes all positions through the output matrix, whatever their labels weigh.
TEST_F(Assembly, ACudaGraphOfWeightedDataIsPlannedAsItTrains) {
  c.data.path = "answers/data";
  c.training.cuda_graph = true;
  const run::Run run = open_run(c);  // on a CPU the graph's function is called again
  EXPECT_FALSE(run.shape.sparse_labels);
  expect_one_shape(run);
  config::RunConfig there = c;
  there.training.device = config::DeviceKind::kCuda;
  const json plan = planned(there, "--device H100");
  EXPECT_EQ(plan.at("compute").at("computed_flops_per_token"), computed_flops(run));
  EXPECT_EQ(plan.at("memory").at("activations"), items(plan::peak_activations(run.memory)));
}

// Validation data with weights use the training's buffers, also where the training data have no weights.
TEST_F(Assembly, WeightsOfAValidationSetArePlanned) {
  const int64_t without = open_run(c).memory.total_bytes;
  c.validation.freq = 4;
  c.validation.set = {{"answers", "answers/data"}};
  c.job.dump_folder = "measured";
  const run::Run run = open_run(c);
  EXPECT_TRUE(run.shape.sparse_labels);
  EXPECT_EQ(run.shape.counted, 1);
  EXPECT_GT(run.memory.total_bytes, without);
  expect_one_shape(run);
  const json plan = planned(c, "--gemm-tflops 1");
  EXPECT_EQ(plan.at("memory").at("total_bytes"), run.memory.total_bytes);
  EXPECT_EQ(plan.at("memory").at("items"), items(plan::memory_items(run.memory)));
  c.validation.freq = 0;  // it is not measured on: its weights say nothing
  EXPECT_EQ(planned(c, "--gemm-tflops 1").at("memory").at("total_bytes"), without);
}

TEST_F(Assembly, ARunFileForAGpuCanBePlannedForThisMachine) {
  c.training.device = config::DeviceKind::kCuda;
  const json here = planned(c, "--device cpu --gemm-tflops 1");
  c.training.device = config::DeviceKind::kCpu;
  EXPECT_EQ(here, planned(c, "--gemm-tflops 1"));
}

}  // namespace
}  // namespace hearth::run
