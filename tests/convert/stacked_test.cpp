// SPDX-License-Identifier: Apache-2.0
// Experts that are one tensor in files (gpt-oss), in bfloat16 and in four bits. transformers reads the same files.
#include "foreign.h"

#include "checkpoint/load.h"
#include "convert/hugging_face/config.h"
#include "convert/names.h"
#include "support/errors.h"

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSizes = "type=gpt_oss meta=0 V=131 K=24 L=2 size=1GB dtype=bfloat16";

std::string made(const std::string& at, const std::string& name, const std::string& sizes) {
  foreign(fmt::format("make {}/{} {} {}", at, name, kSizes, sizes));
  return fmt::format("{}/{}/hf", at, name);
}

void run_mxfp4(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/mxfp4.py " + words);
  ASSERT_EQ(result.exit_code, 0) << words << "\n" << result.output;
}

// D = F: the matrices are square, and no shape says how they lie.
TEST(Stacked, MatricesOfFourBitsAreWhatTransformersMakesOfThem) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  for (const auto& [name, sizes] : {std::pair("odd", "D=96 F=160"), {"square", "D=96 F=96"}}) {
    const std::string hf = made(at, name, sizes), out = fmt::format("{}/{}-4", at, name);
    run_mxfp4(fmt::format("{} {}", hf, out));
    EXPECT_THAT(converted(fmt::format("--to native {0}/packed {0}/native", out)),
                HasSubstr("experts of 4 bits (MXFP4) are read as bfloat16"));
    converted(fmt::format("--to hf {0}/native {0}/back", out));
    EXPECT_EQ(foreign(fmt::format("same {0}/truth {0}/back", out)), "equal");
    converted(fmt::format("--to hf {0}/packed {0}/direct --max-file-size 100kB", out));
    EXPECT_EQ(foreign(fmt::format("same {0}/truth {0}/direct", out)), "equal");
    EXPECT_EQ(read_file(out + "/direct/config.json").find("quantization"), std::string::npos);
  }
}

TEST(Stacked, AnExpertHasItsOwnRows) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string hf = made(scratch.path().string(), "square", "D=96 F=96");
  converted(fmt::format("--to native {0} {0}.native", hf));
  write_text(scratch / "compare.py", R"(
import sys, torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
hf = load_file(sys.argv[1] + "/model.safetensors")
gate_up, down = hf["model.layers.1.mlp.experts.gate_up_proj"], hf["model.layers.1.mlp.experts.down_proj"]
biases = hf["model.layers.1.mlp.experts.gate_up_proj_bias"]
name = "layers.1.moe.experts.4."
expected = {"w1.weight": gate_up[4, :, ::2].t(), "w3.weight": gate_up[4, :, 1::2].t(), "w2.weight": down[4].t(),
            "w1.bias": biases[4, ::2], "w3.bias": biases[4, 1::2],
            "w2.bias": hf["model.layers.1.mlp.experts.down_proj_bias"][4]}
found = {name + key: torch.empty(value.shape, dtype=value.dtype) for key, value in expected.items()}
dcp.load(found, checkpoint_id=sys.argv[1] + ".native", no_dist=True)
assert all(torch.equal(found[name + key], value) for key, value in expected.items())
)");
  const test::CommandResult result = test::run_python(fmt::format("{} {}", (scratch / "compare.py").string(), hf));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Stacked, WhatDoesNotFitIsRefused) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), hf = made(at, "odd", "D=96 F=160");
  const auto refused_after = [&](const char* change, int exit_code = 2) {
    const std::string out = fmt::format("{}/{}", at, change);
    run_mxfp4(fmt::format("{} {} {}", hf, out, change));
    return refused(fmt::format("--to native {0}/packed {0}/native", out), exit_code);
  };
  EXPECT_THAT(refused_after("no_scales"),
              HasSubstr("experts.down_proj_blocks has no model.layers.0.mlp.experts.down_proj_scales beside it"));
  EXPECT_THAT(refused_after("turned"), AllOf(HasSubstr("down_proj_blocks is uint8 [6, 160, 3, 16]"),
                                             HasSubstr("config.json make it uint8 [6, 96, 5, 16]")));
  EXPECT_THAT(refused_after("nan"), HasSubstr("has an element that is NaN or infinite"));
  // The same sizes, in the order of the released files.
  write_text(scratch / "turn.py", R"(
import sys
from safetensors.torch import load_file, save_file
path = sys.argv[1] + "/model.safetensors"
weights = load_file(path)
for name, weight in weights.items():
    if name.endswith("gate_up_proj"):
        weights[name] = weight.transpose(1, 2).contiguous()
save_file(weights, path, metadata={"format": "pt"})
)");
  ASSERT_EQ(test::run_python(fmt::format("{} {}", (scratch / "turn.py").string(), hf)).exit_code, 0);
  EXPECT_THAT(refused(fmt::format("--to native {0} {1}/turned-plain", hf, at)),
              AllOf(HasSubstr("gate_up_proj is bfloat16 [6, 320, 96]"),
                    HasSubstr("make it floating-point numbers [6, 96, 320]")));
  const std::string narrow = made(at, "narrow", "D=96 F=48");
  edit(narrow + "/config.json", "\"model_type\"", R"("quantization_config": {"quant_method": "fp8"}, "model_type")");
  EXPECT_THAT(refused(fmt::format("--to native {0} {1}/fp8", narrow, at)), HasSubstr("quantization_config = "));
}

TEST(Stacked, NamesAreThoseOfEveryExpert) {
  EXPECT_EQ(stacked_in_hugging_face("model.layers.2.mlp.experts.gate_up_proj", "gpt_oss"),
            (std::vector<std::string>{"layers.2.moe.experts.*.w1.weight", "layers.2.moe.experts.*.w3.weight"}));
  EXPECT_TRUE(stacked_in_hugging_face("model.layers.2.mlp.experts.gate_up_proj", "qwen3_moe").empty());
  EXPECT_EQ(stacked_place("layers.0.moe.experts.7.w3.bias", "gpt_oss").count, 2);
  EXPECT_EQ(stacked_place("layers.0.moe.experts.7.w3.bias", "gpt_oss").place, 1);
  EXPECT_EQ(stacked_place("layers.0.moe.experts.7.w2.weight", "gpt_oss").count, 1);
  EXPECT_EQ(stacked_place("layers.0.attention.wq.weight", "gpt_oss").count, 0);
  EXPECT_EQ(to_hugging_face("layers.3.moe.experts.7.w1.weight", "gpt_oss"), "model.layers.3.mlp.experts.gate_up_proj");
}

}  // namespace
}  // namespace hearth::convert
