// SPDX-License-Identifier: Apache-2.0
// model_type of transformers in a file that is imported.
#include "config/families.h"

#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;

std::string expected(const HuggingFaceClass& type) {
  if (type.experts.exist()) return "is a family with experts, and model.num_experts = 0";
  return type.is_encoder ? "is an encoder" : "imported";
}

TEST_F(ImportTest, ATypeOfAModelIsOneOfTheFamilies) {
  const std::string begin = R"({"max_steps": 4, "model_type": ")";
  const auto text = [&](const std::string& type) { return error({{"a.json", begin + type + "\"}"}}, {.ranks = 1}); };
  for (const Family& f : families()) EXPECT_THAT(text(f.hugging_face.model_type), HasSubstr(expected(f.hugging_face)));
  const RunConfig olmo = import({{"a.json", R"({"max_steps": 4, "model_type": "olmo2"})"}}, {.ranks = 1}).config;
  EXPECT_EQ(olmo.model.qk_norm_scope, QkNormScope::kAllHeads);
  EXPECT_THAT(text("gpt2"), HasSubstr("a.json:1: model_type = \"gpt2\": the families are arcee, ernie4_5, "));
}

}  // namespace
}  // namespace hearth::config
