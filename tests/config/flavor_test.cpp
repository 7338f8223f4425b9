// SPDX-License-Identifier: Apache-2.0
// What a flavor sets, and what beats it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "config/families.h"
#include "config/load.h"
#include "plan/parameters.h"
#include "problems.h"
#include "run_file.h"

namespace hearth::config {
namespace {

using FlavorTest = RunFileTest;

TEST_F(FlavorTest, AGivenWidthBeatsTheFlavorsRuleForIt) {
  const LoadResult run = read_run(file("[model]\nflavor = \"8B\"\nhidden_dim = 100\n"), {});
  EXPECT_EQ(run.config.model.hidden_dim, 100);
  EXPECT_EQ(run.config.model.ffn_dim_multiplier, 0);
}

TEST_F(FlavorTest, QwensFlavorsAlsoSetTheirWidthsBiasesAndNorms) {
  const LoadResult small = read_run(file("[model]\nname = \"qwen2.5\"\nflavor = \"0.5B\"\n"), {});
  EXPECT_TRUE(small.problems.empty());
  EXPECT_EQ(small.config.model.hidden_dim, 4864);
  EXPECT_TRUE(small.config.model.qkv_bias);
  EXPECT_FALSE(small.config.model.qk_norm);
  EXPECT_EQ(small.config.model.norm_eps, 1e-6);
  EXPECT_EQ(small.origin("model.head_dim").kind, Origin::Kind::kDefault);
  const LoadResult large =
      read_run(file("[model]\nname = \"qwen3\"\nflavor = \"32B\"\nqk_norm = false\n"), {"model.ffn_dim_multiplier=2"});
  EXPECT_TRUE(large.problems.empty());
  EXPECT_EQ(large.config.model.head_dim, 128);
  EXPECT_EQ(large.origin("model.head_dim").kind, Origin::Kind::kFlavor);
  EXPECT_FALSE(large.config.model.qk_norm) << "given";
  EXPECT_EQ(large.config.model.hidden_dim, 0) << "the given factor counts";
}

// The order of keys in a family's files does not matter: gemma3 has keys that apply only where later ones are set.
TEST(Flavor, ARunWithItHasAllOfItsKeys) {
  for (const Flavor& flavor : flavors()) {
    RunConfig published;
    published.model = model_of(flavor);
    const LoadResult run = read_run_text(
        fmt::format("[model]\nname = \"{}\"\nflavor = \"{}\"\n", flavor.model_name, flavor.name), "run.toml", ".");
    for (const Field& field : fields()) {
      const auto holds = [&](const Condition& condition) { return condition.holds(published); };
      if (field.section != "model" || field.key == "name" || field.key == "flavor" ||
          !std::all_of(field.applies_when.begin(), field.applies_when.end(), holds))
        continue;
      EXPECT_EQ(field.value(run.config), field.value(published))
          << flavor.model_name << " " << flavor.name << " " << field.name();
    }
  }
}

// OpenAI's model card (arXiv 2508.10925), table 1. It leaves the embedding out of what a token uses.
TEST(Flavor, OfGptOssUseTheParametersOfItsCard) {
  for (const auto& [name, all, active] : {std::tuple("20B", 20.91e9, 3.61e9), {"120B", 116.83e9, 5.13e9}}) {
    const plan::ModelShape shape = plan::model_shape(model_of(*find_flavor("gpt_oss", name)), 201088);
    const plan::ParameterPlan plan = plan::parameter_plan(shape);
    EXPECT_NEAR(static_cast<double>(plan.num_parameters) / all, 1, 0.001);
    EXPECT_NEAR(static_cast<double>(plan.num_active - shape.V * shape.D) / active, 1, 0.001);
  }
}

TEST(Flavor, OfGptOssHasKeysThatGoTogether) {
  EXPECT_TRUE(problems({"model.num_experts=4", "model.moe_top_k=2", "model.ffn_bias=true", "model.router_bias=true",
                        "model.activation=clamped_swiglu", "model.attention_sinks=true"})
                  .empty());
  EXPECT_EQ(problems({"model.gated_ffn=false", "model.activation=clamped_swiglu"}),
            std::vector<std::string>{"clamped_swiglu is a function of w1 x and w3 x"});
}

// Counts as Meta, the neural-data repositories and EleutherAI publish them for their own vocabularies.
TEST(Flavors, HaveTheParameterCountsOfTheModelsTheyAreNamedAfter) {
  struct Known {
    std::string_view family, flavor;
    int64_t vocab_size, parameters;
  };
  for (const Known& known : {Known{"llama3", "8B", 128256, 8'030'261'248},
                             {"llama3", "1B", 128256, 1'397'819'392},
                             {"llama3", "8B", 256, 6'981'685'248},
                             {"llama3", "70B", 128256, 70'553'706'496},
                             {"llama3.1", "8B", 128256, 8'030'261'248},
                             {"llama3.1", "405B", 128256, 405'853'388'800},
                             {"llama3.2", "1B", 128256, 1'235'814'400},
                             {"llama3.2", "3B", 128256, 3'212'749'824},
                             {"llama2", "7B", 32000, 6'738'415'616},
                             {"llama2", "13B", 32000, 13'015'864'320},
                             {"llama2", "70B", 32000, 68'976'648'192},
                             {"llemma", "7B", 32016, 6'738'546'688},
                             {"llemma", "34B", 32000, 33'743'970'304},
                             // transformers 5.23: the classes Qwen2ForCausalLM and Qwen3ForCausalLM on device "meta"
                             {"qwen2", "0.5B", 151936, 494'032'768},
                             {"qwen2", "1.5B", 151936, 1'543'714'304},
                             {"qwen2", "7B", 152064, 7'615'616'512},
                             {"qwen2", "72B", 152064, 72'706'203'648},
                             {"qwen2.5", "0.5B", 151936, 494'032'768},
                             {"qwen2.5", "1.5B", 151936, 1'543'714'304},
                             {"qwen2.5", "3B", 151936, 3'085'938'688},
                             {"qwen2.5", "7B", 152064, 7'615'616'512},
                             {"qwen2.5", "14B", 152064, 14'770'033'664},
                             {"qwen2.5", "32B", 152064, 32'763'876'352},
                             {"qwen2.5", "72B", 152064, 72'706'203'648},
                             {"qwen3", "0.6B", 151936, 596'049'920},
                             {"qwen3", "1.7B", 151936, 1'720'574'976},
                             {"qwen3", "4B", 151936, 4'022'468'096},
                             {"qwen3", "8B", 151936, 8'190'735'360},
                             {"qwen3", "14B", 151936, 14'768'307'200},
                             {"qwen3", "32B", 151936, 32'762'123'264},
                             // Olmo2ForCausalLM likewise
                             {"olmo2", "1B", 100352, 1'484'916'736},
                             {"olmo2", "7B", 100352, 7'298'617'344},
                             {"olmo2", "13B", 100352, 13'716'198'400},
                             {"olmo2", "32B", 100352, 32'234'279'936},
                             {"neobert", "250M", 30522, 245'136'954},
                             {"gemma", "2B", 256000, 2'506'172'416},
                             {"gemma", "7B", 256000, 8'537'680'896},
                             {"gemma3", "270M", 262144, 268'098'176},
                             {"gemma3", "1B", 262144, 999'885'952},
                             {"gemma3", "4B", 262208, 3'880'263'168},
                             {"gemma3", "12B", 262208, 11'766'034'176},
                             {"gemma3", "27B", 262208, 27'009'346'304},
                             {"olmo3", "7B", 100278, 7'298'011'136},
                             {"olmo3", "32B", 100278, 32'233'522'176},
                             {"smollm3", "3B", 128256, 3'075'098'624},
                             {"seed_oss", "36B", 155136, 36'151'104'512},
                             {"ernie4_5", "0.3B", 103424, 360'748'032},
                             {"granite3", "2B", 49155, 2'533'531'648},
                             {"granite3", "8B", 49155, 8'170'848'256},
                             {"phi3", "mini-4k", 32064, 3'821'079'552},
                             {"phi3", "medium-4k", 32064, 13'960'238'080},
                             {"phi4", "14B", 100352, 14'659'507'200},
                             {"ministral3", "8B", 131072, 8'489'553'920},
                             {"qwen3_moe", "30B-A3B", 151936, 30'532'122'624},
                             {"qwen3_moe", "235B-A22B", 151936, 235'093'634'560},
                             // With the biases of experts, which are buffers in transformers.
                             {"glm4_moe", "106B-A12B", 151552, 106'852'245'504 + 45 * 128},
                             {"glm4_moe", "355B-A32B", 151552, 352'797'814'784 + 89 * 160},
                             {"deepseek_v3", "16B-A3B", 163840, 15'960'108'544 + 26 * 64},
                             {"deepseek_v3", "671B-A37B", 129280, 671'026'404'352 + 58 * 256},
                             {"ernie4_5_moe", "21B-A3B", 103424, 21'825'437'888},
                             {"gpt_oss", "20B", 201088, 20'914'757'184},
                             {"gpt_oss", "120B", 201088, 116'829'156'672},
                             {"olmoe", "1B-7B", 50304, 6'919'161'856},
                             {"mixtral", "8x7B", 32000, 46'702'792'704},
                             {"mixtral", "8x22B", 32768, 140'630'071'296}}) {
    const Flavor* flavor = find_flavor(known.family, known.flavor);
    ASSERT_NE(flavor, nullptr);
    const plan::ModelShape shape = plan::model_shape(model_of(*flavor), known.vocab_size);
    EXPECT_EQ(plan::parameter_plan(shape).num_parameters, known.parameters) << known.family << " " << known.flavor;
  }
  // In millions, where no more digits are known.
  for (const Known& known : {Known{"llama3", "250M", 32000, 3172},
                             {"llama3", "870M", 32000, 10036},
                             {"llama3", "2B", 32000, 22351},
                             {"llama3", "5B", 32000, 37519},
                             {"llama3", "7B", 32000, 72417},
                             {"llama3", "3B", 128256, 43995}}) {
    const plan::ModelShape shape =
        plan::model_shape(model_of(*find_flavor(known.family, known.flavor)), known.vocab_size);
    EXPECT_EQ((plan::parameter_plan(shape).num_parameters + 50'000) / 100'000, known.parameters) << known.flavor;
  }
}

}  // namespace
}  // namespace hearth::config
