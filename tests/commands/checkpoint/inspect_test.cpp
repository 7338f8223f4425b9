// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/example.h"
#include "support/hearth_command.h"
#include "support/text_file.h"
#include "trace/flight.h"

namespace hearth::checkpoint {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

using test::run_hearth;

TEST(InspectCommand, ShowsStepParametersProvenanceTensorsAndConfiguration) {
  HEARTH_NEEDS_TRAINER();
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  // 13*7 + 6*5 + 4*3 + 11 + 3*4*5 elements of weights; the optimizer's do not count.
  for (const char* expected :
       {"100, 100000 tokens seen", "204 (204) in 5 weights", ", commit of a test)", "step-00000001",
        "layers.10.attention.wq.weight", "float64", "[4, 3]", "validation_loss", "steps = 100 # \"quoted\""})
    EXPECT_THAT(result.output, HasSubstr(expected)) << expected << "\n" << result.output;
  EXPECT_THAT(result.output, ContainsRegex("LibTorch 2\\.11\\.0, 2[ \n]+ranks"));
}

TEST(InspectCommand, WeightsOfLayersThatAreAlikeShareALine) {
  const test::ScratchFolder scratch;
  std::vector<ExampleTensor> tensors;
  for (const int64_t layer : {0, 1, 10, 2}) {
    const std::string name = fmt::format("layers.{}.w", layer);
    tensors.push_back(example_tensor(name, DType::kFloat32, {layer == 10 ? 3 : 2, 5}));
    tensors.push_back(example_tensor(name + "2", layer == 1 ? DType::kFloat64 : DType::kFloat32, {7}));
  }
  const std::string folder = save_example(scratch, tensors, 100, 1).string();
  const std::string output = run_hearth("inspect " + folder).output;
  for (const char* expected : {"layers.0-2.w  float32 ", " [2, 5] in 3 layers\n", "layers.10.w   float32 ",
                               "layers.*.w2   float32 ", " [7] in 3 layers\n", "layers.1.w2   float64 "})
    EXPECT_THAT(output, HasSubstr(expected)) << output;
  const std::string all = run_hearth("inspect --all " + folder).output;
  for (const char* expected : {"layers.0.w ", "layers.1.w ", "layers.2.w ", "layers.10.w2"})
    EXPECT_THAT(all, HasSubstr(expected)) << all;
  EXPECT_THAT(all, testing::Not(HasSubstr("in 3 layers")));
}

TEST(InspectCommand, ExpertsOfALayerShareALine) {
  const test::ScratchFolder scratch;
  std::vector<ExampleTensor> tensors;
  for (const char* name : {"layers.1.moe.experts.0.w", "layers.1.moe.experts.1.w", "layers.2.moe.experts.0.w",
                           "layers.2.moe.experts.1.w", "layers.1.experts.x.w"})
    tensors.push_back(example_tensor(name, DType::kFloat32, {2, 5}));
  const std::string folder = save_example(scratch, tensors, 100, 1).string();
  const std::string output = run_hearth("inspect " + folder).output;
  for (const char* expected :
       {"layers.1-2.moe.experts.*.w  float32 ", " [2, 5] in 4 tensors\n", "layers.1.experts.x.w "})
    EXPECT_THAT(output, HasSubstr(expected)) << output;
  EXPECT_THAT(run_hearth("inspect --all " + folder).output, HasSubstr("layers.2.moe.experts.1.w "));
}

TEST(InspectCommand, TheModelAloneIsTheSectionOfARunFile) {
  const test::ScratchFolder scratch;
  const Path temporary = temporary_folder(scratch, 100);
  begin_save(temporary);
  const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(example_tensors(), 0, 1))};
  Manifest manifest = example_manifest(100, 1);
  manifest.config_toml = "[training]\nsteps = 3\n\n[model]\ndim = 7\n\n[data]\npath = \"d\"\n";
  commit(temporary, step_folder(scratch, 100), items, manifest);
  EXPECT_EQ(run_hearth("inspect --model " + scratch.path().string()).output, "[model]\ndim = 7\n");
  const Path without = save_example(scratch, example_tensors(), 101, 1);
  const test::CommandResult none = run_hearth("inspect --model " + without.string());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("does not say the model's shape"));
}

// The model of masked_lm is of no use to a run file without the objective. Nor is that of masked_diffusion.
TEST(InspectCommand, TheModelOfMaskedLmComesWithItsObjective) {
  for (const char* kind : {"masked_lm", "masked_diffusion"}) {
    const test::ScratchFolder scratch;
    const Path temporary = temporary_folder(scratch, 100);
    begin_save(temporary);
    const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(example_tensors(), 0, 1))};
    Manifest manifest = example_manifest(100, 1);
    const std::string objective = fmt::format("[objective]\nkind = \"{}\"\nmask_id = 5\n", kind);
    manifest.config_toml = "[model]\ndim = 7\n\n" + objective + "\n[data]\npath = \"d\"\n";
    commit(temporary, step_folder(scratch, 100), items, manifest);
    EXPECT_EQ(run_hearth("inspect --model " + scratch.path().string()).output, "[model]\ndim = 7\n\n" + objective);
  }

  // The same with Hugging Face's files.
  const test::ScratchFolder scratch;
  const Path folder = scratch / "hf";
  test::write_text(folder / "config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 320,
      "max_position_embeddings": 128, "is_causal": false, "mask_token_id": 4})");
  const std::string header = R"({"model.norm.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  test::write_text(folder / "model.safetensors",
                   std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + "w");
  const std::string output = run_hearth("inspect --model " + folder.string()).output;
  EXPECT_THAT(output, testing::StartsWith("[model]\n")) << output;
  EXPECT_THAT(output, HasSubstr("\nvocab_size = 320\n\n[objective]\nkind = \"masked_lm\"\n"));
  EXPECT_THAT(output, HasSubstr("\nmask_id = 4\n"));
  EXPECT_THAT(run_hearth("inspect " + folder.string()).output, HasSubstr("\n[objective]\nkind = \"masked_lm\"\n"));
}

TEST(InspectCommand, AsJsonIsOneObjectWithTheSameNumbers) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("inspect --json " + folder.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json j = nlohmann::json::parse(result.output);
  EXPECT_EQ(j.at("step"), 100);
  EXPECT_EQ(j.at("parameters"), 204);
  EXPECT_EQ(j.at("metrics").at("loss"), 0.1 + 0.2);
  EXPECT_EQ(j.at("data").at("seed"), 18446744073709551615u);
  EXPECT_EQ(j.at("config"), example_manifest(100, 2).config_toml);
  ASSERT_EQ(j.at("tensors").size(), 7u);
  EXPECT_EQ(j.at("tensors")[0].at("name"), "cube");
  EXPECT_EQ(j.at("tensors")[0].at("shape"), (std::vector<int64_t>{3, 4, 5}));
}

TEST(InspectCommand, OfCallsListsThemAndDrawsThem) {
  const test::ScratchFolder scratch;
  {
    trace::FlightWriter writer(trace::flight_file(scratch, 0), 0, 1);
    writer.end(writer.begin("all_gather", writer.add_group({0, 1, 1}), 1, 64, trace::kAllPeers));
    writer.set_ended();
  }
  const std::string picture = (scratch / "calls.svg").string(), folder = scratch.path().string();
  const test::CommandResult result = run_hearth("inspect " + folder + " --last 1 --picture " + picture);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("all_gather 1 of ranks 0: 64 B"));
  EXPECT_THAT(result.output, HasSubstr("wrote " + picture));
  EXPECT_THAT(read_file(picture), HasSubstr("<title>all_gather 1 of ranks 0: 64 B: "));
  // They are for calls only.
  const Path checkpoint = save_example(scratch, example_tensors(), 100, 1);
  for (const auto& [option, value] : {std::pair("--last", std::string("3")), {"--picture", picture}}) {
    const test::CommandResult refused = run_hearth(fmt::format("inspect {} {} {}", checkpoint.string(), option, value));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr(fmt::format("error: {} is for RUN/flight", option)));
  }
}

TEST(InspectCommand, OfAPyTorchDirectorySaysSo) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  remove_file(folder / kManifestFile);
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("PyTorch (no hearth.json")) << result.output;
}

TEST(InspectCommand, OfADamagedManifestExitsWith3AndNamesIt) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  overwrite(folder / kManifestFile, 60, "x");
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("hearth.json is damaged")) << result.output;
}

}  // namespace
}  // namespace hearth::checkpoint
