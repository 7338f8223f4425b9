// Weights of other programs through Hearth and back: the same bits, and the same logits as transformers computes.
#include "foreign.h"

#include "checkpoint/load.h"
#include "checkpoint/verify.h"
#include "config/load.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct RoundTrip : testing::TestWithParam<const char*> {};

// transformers computes the same sums in the same order for equal weights: no tolerance.
TEST_P(RoundTrip, HuggingFaceAndMetaThroughNativeKeepTheirBitsAndTheirLogits) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f {}", at, GetParam()));
  converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  EXPECT_TRUE(checkpoint::verify_checkpoint(at + "/native").problems.empty());
  converted(fmt::format("--to hf {0}/native {0}/hf --max-file-size 30kB", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  converted(fmt::format("--to meta {0}/native {0}/meta", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/meta-1/consolidated.00.pth {0}/meta/consolidated.00.pth", at)), "equal");
  converted(fmt::format("--to hf {0}/f/meta-2 {0}/from-meta", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/from-meta", at)), "equal");
  converted(fmt::format("--to native {0}/f/meta-2 {0}/native-of-meta", at));
  converted(fmt::format("--to meta {0}/native-of-meta {0}/meta-again", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/meta-1/consolidated.00.pth {0}/meta-again/consolidated.00.pth", at)),
            "equal");
  EXPECT_EQ(foreign(fmt::format("logits {0}/f {0}/hf {0}/from-meta", at)), "0.0");
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_EQ(foreign(fmt::format("dcp {0}/dcp {0}/f/hf", at)), "equal");
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         testing::Values("dtype=float32", "dtype=bfloat16 scaled=1 columns=1", "dtype=bfloat16 tied=1",
                                         "D=160 H=2 G=2 theta=10000 columns=1 V=202 L=2"),
                         [](const auto& info) { return fmt::format("Model{}", info.index); });

TEST(RoundTrip, NativeKeepsTheOrderOfPairsUnlessAskedAndSaysWhichItHas) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f", at));
  converted(fmt::format("--to native {0}/f/hf {0}/halves", at));
  converted(fmt::format("--to native {0}/f/hf {0}/interleaved --rope-pairs interleaved", at));
  converted(fmt::format("--to native {0}/f/meta-1 {0}/meta", at));
  const auto pairs = [&](const std::string& name) {
    return config::from_toml_text(checkpoint::Reader::open(at + "/" + name).manifest().config_toml, name, ".")
        .model.rope_pairs;
  };
  EXPECT_EQ(pairs("halves"), config::RopePairs::kHalves);
  EXPECT_EQ(pairs("interleaved"), config::RopePairs::kInterleaved);
  EXPECT_EQ(pairs("meta"), config::RopePairs::kInterleaved);
  EXPECT_EQ(read_file(at + "/interleaved/__R_0.distcp"), read_file(at + "/meta/__R_0.distcp"));
  EXPECT_NE(read_file(at + "/halves/__R_0.distcp"), read_file(at + "/meta/__R_0.distcp"));
  converted(fmt::format("--to hf {0}/interleaved {0}/hf", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
}

TEST(RoundTrip, FamiliesBesidesLlama) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  for (const char* type : {"mistral", "olmo"}) {
    foreign(fmt::format("make {0}/{1} type={1} meta=0 V=131", at, type));
    converted(fmt::format("--to native {0}/{1}/hf {0}/{1}/native", at, type));
    converted(fmt::format("--to hf {0}/{1}/native {0}/{1}/back", at, type));
    EXPECT_EQ(foreign(fmt::format("same {0}/{1}/hf {0}/{1}/back", at, type)), "equal");
    EXPECT_EQ(foreign(fmt::format("logits {0}/{1} {0}/{1}/back", at, type)), "0.0");
  }
}

TEST(RoundTrip, TypesAreRoundedAsByPyTorch) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=1", at));
  write_text(scratch / "cast.py", R"(
import sys, torch
from safetensors.torch import load_file, save_file
at = sys.argv[1]
for name in ('bfloat16', 'float16'):
    import glob, os
    os.makedirs(f'{at}/{name}')
    t = {k: v for f in glob.glob(at + '/f/hf/*.safetensors') for k, v in load_file(f).items()}
    save_file({k: v.to(getattr(torch, name)) for k, v in t.items()}, f'{at}/{name}/all.safetensors')
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/cast.py {0}", at)).exit_code, 0);
  for (const char* type : {"bfloat16", "float16"}) {
    converted(fmt::format("--to hf {0}/f/hf {0}/ours-{1} --dtype {1}", at, type));
    EXPECT_EQ(foreign(fmt::format("same {0}/{1} {0}/ours-{1}", at, type)), "equal");
  }
  // Back to a wider type is exact. A native checkpoint has no float16.
  EXPECT_THAT(converted(fmt::format("--to native {0}/ours-float16 {0}/native", at)),
              HasSubstr("note: float16 becomes float32"));
  converted(fmt::format("--to hf {0}/native {0}/narrow --dtype float16", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/float16 {0}/narrow", at)), "equal");
}

TEST(RoundTrip, AFolderOfPyTorchNeedsARunFileAndThenConverts) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f", at));
  converted(fmt::format("--to native {0}/f/meta-1 {0}/native", at));
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_THAT(refused(fmt::format("--to hf {0}/dcp {0}/hf", at)), HasSubstr("does not describe its model"));
  write_text(scratch / "run.toml",
             "[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\nrope_theta = 500000\n");
  converted(fmt::format("--to hf {0}/dcp {0}/hf --config {0}/run.toml", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  EXPECT_THAT(refused(fmt::format("--to hf {0}/native {0}/x --config {0}/run.toml", at)),
              HasSubstr("describes its model itself"));
}

}  // namespace
}  // namespace hearth::convert
