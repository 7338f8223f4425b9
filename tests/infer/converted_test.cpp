// SPDX-License-Identifier: Apache-2.0
// Models of other programs in Hearth: the logits that transformers computes, and the same start of a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "convert/foreign.h"
#include "infer/decoding.h"
#include "model/transformer.h"
#include "ops/tensor.h"

namespace hearth::infer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Truth {
  std::vector<int32_t> ids;
  std::vector<double> logits;  // after the last of them
};

std::vector<Truth> truths(const std::string& folder) {
  const test::CommandResult result = test::run_python("tests/convert/foreign.py text " + folder);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::istringstream lines(result.output);
  std::vector<Truth> found;
  for (std::string ids, logits; std::getline(lines, ids) && std::getline(lines, logits);) {
    Truth& truth = found.emplace_back();
    std::istringstream id_words(ids), logit_words(logits);
    for (int32_t id = 0; id_words >> id;) truth.ids.push_back(id);
    for (double logit = 0; logit_words >> logit;) truth.logits.push_back(logit);
  }
  return found;
}

struct Converted : testing::TestWithParam<const char*> {};

// The tolerance is about 20 times the largest difference that was measured, of float32 sums in another order.
TEST_P(Converted, ModelsComputeTheLogitsOfTransformers) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f {}", at, GetParam()));
  convert::converted(fmt::format("--to native {0}/f/hf {0}/halves", at));
  convert::converted(fmt::format("--to native {0}/f/hf {0}/interleaved --rope-pairs interleaved", at));
  if (path_exists(at + "/f/meta-2")) convert::converted(fmt::format("--to native {0}/f/meta-2 {0}/meta", at));
  const std::vector<Truth> expected = truths(at + "/f");
  ASSERT_EQ(expected.size(), 2U);
  for (const char* name : {"halves", "interleaved", "meta"}) {
    if (!path_exists(at + "/" + name)) continue;
    const auto model = load_model(at + "/" + name);
    for (const Truth& truth : expected) {
      const std::vector<double> found = Decoding(*model, truth.ids).logits();
      ASSERT_EQ(found.size(), truth.logits.size()) << name;
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], truth.logits[i], 2e-5) << name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Converted,
    testing::Values("V=130", "tied=1 scaled=1 positions=40", "D=160 H=2 G=2 theta=10000 V=202 L=1",
                    "type=olmo meta=0 V=131", "type=mistral meta=0 K=24", "type=qwen2 meta=0",
                    "type=qwen3 meta=0 K=24 tied=1", "type=olmo2 meta=0 tied=1", "type=smollm3 meta=0 L=5",
                    "type=seed_oss meta=0 K=24", "type=ernie4_5 meta=0 K=24 tied=1", "type=granite meta=0 tied=1",
                    "type=arcee meta=0", "type=olmo3 meta=0 L=5", "type=phi3 meta=0", "type=phi3 meta=0 tied=1 G=6",
                    "type=ministral3 meta=0 K=24", "type=gemma meta=0 K=24 tied=1", "type=glm4 meta=0 K=24",
                    "type=gemma3_text meta=0 K=24 tied=1", "type=exaone4 meta=0 K=24", "type=qwen3_moe meta=0 K=24",
                    "type=glm4_moe meta=0 K=24", "type=afmoe meta=0 K=24 L=5", "type=dots1 meta=0 K=24 L=4",
                    "type=minimax_m2 meta=0 K=24", "type=ernie4_5_moe meta=0 K=24 tied=1", "type=gpt_oss meta=0 K=24",
                    "type=gpt_oss meta=0 D=96 F=96 L=2", "type=deepseek_v3 meta=0 K=22", "type=deepseek_v3 meta=0",
                    "type=olmoe meta=0", "type=mixtral meta=0"),
    [](const auto& info) { return fmt::format("Model{}", info.index); });

// An encoder has logits at all positions at once; the file has those of the last one.
TEST(ConvertedEncoder, ComputesTheLogitsOfTransformers) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  for (const auto& [name, words] :
       {std::pair("untied", "type=modernbert L=4 V=131"), std::pair("tied", "type=modernbert L=4 V=131 tied=1"),
        std::pair("neobert", "type=neobert L=2 V=131")}) {
    convert::foreign(fmt::format("make {}/{} meta=0 {}", at, name, words));
    convert::converted(fmt::format("--to native {0}/{1}/hf {0}/{1}/native", at, name));
    const auto model = load_model(fmt::format("{}/{}/native", at, name));
    EXPECT_EQ(model->config.objective.kind, config::ObjectiveKind::kMaskedLm);
    for (const Truth& truth : truths(fmt::format("{}/{}", at, name))) {
      const auto S = std::ssize(truth.ids);
      model::Transformer transformer(model->shape, model->plan, 1, S, model->compute_options());
      transformer.loss(*model->weights, {ops::from_int32(truth.ids), ops::from_int32(truth.ids)});
      const std::vector<double> found =
          ops::to_doubles(transformer.logits(*model->weights, ops::from_int64(std::vector<int64_t>{S - 1}, at::kCPU)));
      ASSERT_EQ(found.size(), truth.logits.size());
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], truth.logits[i], 2e-5) << name << " " << i;
    }
  }
}

TEST(InitialLoad, FromHuggingFaceMetaNeoxAndNativeBeginsWithTheSameLoss) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f V=300 G=6", at));
  convert::foreign(fmt::format("neox {}/f split 2 1", at));
  convert::converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  std::string text;
  for (int i = 0; i < 500; ++i) text += fmt::format("{} cats of {}. ", i * i, i % 7);
  convert::write_text(scratch / "text.txt", text);
  ASSERT_EQ(test::run_hearth(fmt::format("data build --out {0}/data --tokenizer bytes {0}/text.txt", at)).exit_code, 0);
  convert::write_text(scratch / "run.toml", R"([model]
dim = 96
n_layers = 3
n_heads = 6
n_kv_heads = 6
hidden_dim = 112
rope_theta = 500000
vocab_size = 300
[training]
seq_len = 64
local_batch_size = 2
steps = 1
[data]
path = "data"
)");
  const auto output = [&](const std::string& load, const std::string& pairs) {
    static int run = 0;
    return test::run_hearth(
        fmt::format("train {}/run.toml --set checkpoint.initial_load_path={} "
                    "--set model.rope_pairs={} --set job.dump_folder=run-{} --verbose",
                    at, load, pairs, ++run));
  };
  const auto first_loss = [&](const std::string& load, const std::string& pairs) {
    const std::string text = output(load, pairs).output;
    const size_t begin = text.find("step 1/1  loss ");
    EXPECT_NE(begin, std::string::npos) << text;
    return text.substr(begin, 21);
  };
  const std::string expected = first_loss("native", "halves");
  EXPECT_EQ(first_loss("f/hf", "halves"), expected);
  EXPECT_EQ(first_loss("f/hf", "interleaved"), expected);
  EXPECT_EQ(first_loss("f/meta-2", "halves"), expected);
  EXPECT_EQ(first_loss("f/meta-1", "interleaved"), expected);
  EXPECT_EQ(first_loss("f/neox", "interleaved"), expected);
  EXPECT_THAT(output("native", "halves").output, HasSubstr("the checkpoint has no tokenizer: that its ids are the"));
  // Equal shapes are not enough.
  EXPECT_THAT(output("f/hf", "halves --set model.norm_type=layernorm").output,
              HasSubstr("holds the weights of another model"));
  EXPECT_THAT(output("f/hf", "halves --set model.sliding_window=64").output,
              AllOf(HasSubstr("holds the weights of another model"), HasSubstr("model.sliding_window: 0 -> 64")));
  EXPECT_THAT(output("f/meta-1", "halves --set model.norm_type=layernorm").output,
              HasSubstr("model.norm_type: \"rmsnorm\" -> \"layernorm\""));
}

}  // namespace
}  // namespace hearth::infer
