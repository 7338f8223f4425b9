// SPDX-License-Identifier: Apache-2.0
// model_type of transformers in a file that is imported.
#include "config/families.h"

#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;

// Its sizes are those that its class has by default, LlamaConfig() and others, and no table here has them.
TEST_F(ImportTest, ATypeOfAModelWithoutItsNameIsRefused) {
  const std::string begin = R"({"max_steps": 4, "model_type": ")";
  const auto text = [&](const std::string& type) { return error({{"a.json", begin + type + "\"}"}}, {.ranks = 1}); };
  for (const Family& f : families())
    EXPECT_THAT(text(f.hugging_face.model_type),
                HasSubstr("without a model's name, Transformers takes the sizes that its class has by default"));
  EXPECT_EQ(text("olmo2"),
            "error: a.json:1: model_type = \"olmo2\": without a model's name, Transformers takes the sizes that its "
            "class has by default\n  fix: write name = \"olmo2\" and the sizes in [model] of "
            "the result, or import the rest: --leave-out model_type");
  EXPECT_THAT(text("gpt2"),
              HasSubstr("a.json:1: model_type = \"gpt2\": the families are afmoe, arcee, deepseek_v3, dots1, "));
  const std::string named = R"({"max_steps": 4, "model_type": "olmo2", "model_name_or_path": "Qwen/Qwen3-0.6B"})";
  EXPECT_EQ(import({{"a.json", named}}, {.ranks = 1}).config.model.flavor, "0.6B") << "the name counts, as there";
}

}  // namespace
}  // namespace hearth::config
