// SPDX-License-Identifier: Apache-2.0
// A bit that flipped in a weight: every kind whose files have a CRC-32 finds it on the way.
#include "foreign.h"

#include <sys/stat.h>

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Flips the lowest bit of one element in a folder's file, which stays a finite number, and prints the file's name.
constexpr const char* kFlip = R"(
import os, sys
from safetensors.torch import load_file
folder, hf = sys.argv[1:]
row = next(t for f in sorted(os.listdir(hf)) if f.endswith('.safetensors')
           for n, t in load_file(f'{hf}/{f}').items() if n == 'model.layers.0.mlp.down_proj.weight')[0, :16].contiguous()
wanted = row.view(-1).numpy().tobytes() if str(row.dtype) != 'torch.bfloat16' else row.view(-1).short().numpy().tobytes()
for place, _, names in os.walk(folder):
    for name in names:
        data = bytearray(open(f'{place}/{name}', 'rb').read())
        at = data.find(wanted)
        if at >= 0:
            data[at] ^= 1
            open(f'{place}/{name}', 'wb').write(data)
            print(f'{place}/{name}')
            sys.exit()
sys.exit('no file has the row')
)";

void flip_a_bit(const test::ScratchFolder& scratch, const std::string& in, const std::string& hf, std::string& file) {
  write_text(scratch / "flip.py", kFlip);
  const test::CommandResult flip = test::run_python(fmt::format("{}/flip.py {} {}", scratch.path().string(), in, hf));
  ASSERT_EQ(flip.exit_code, 0) << flip.output;
  file = flip.output.substr(0, flip.output.find('\n'));
}

// IN has config.json and pytorch_model.bin.
void make_bin(const test::ScratchFolder& scratch, const std::string& hf, const std::string& in,
              const std::string& crcs = "crc") {
  make_folders(in);
  std::filesystem::copy(hf + "/config.json", in);
  write_text(scratch / "bin.py", R"(
import glob, sys, torch
from safetensors.torch import load_file
state = {}
for file in glob.glob(sys.argv[1] + '/*.safetensors'):
    state |= load_file(file)
torch.serialization.set_crc32_options(sys.argv[3] == 'crc')
torch.save(state, sys.argv[2] + '/pytorch_model.bin')
)");
  ASSERT_EQ(test::run_python(fmt::format("{}/bin.py {} {} {}", scratch.path().string(), hf, in, crcs)).exit_code, 0);
}

struct Damage : testing::TestWithParam<const char*> {};

TEST_P(Damage, IsFoundByAConversion) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), kind = GetParam(), hf = at + "/f/hf";
  foreign(fmt::format("make {}/f L=1 D=96 G=6 dtype=float32", at));
  write_text(scratch / "run.toml", "[model]\ndim = 96\nn_layers = 1\nn_heads = 6\nhidden_dim = 112\n");
  std::string in = at + "/in", words;
  if (kind == "hf") {
    make_bin(scratch, hf, in);
  } else if (kind == "meta") {  // all tensors are in one storage
    in = at + "/f/meta-2";
  } else if (kind == "dcp") {
    words = "--config " + at + "/run.toml";
    converted(fmt::format("--to dcp {} {}", hf, in));
  } else if (kind == "neox") {
    words = "--config " + at + "/run.toml --qkv-layout split";
    foreign(fmt::format("neox {}/f split 2 0", at));
    in = at + "/f/neox";
  } else {
    words = "--config " + at + "/run.toml";
    foreign(fmt::format("nxd {}/f 2 1 v3 {} separate", at, kind));
    in = at + "/f/nxd";
  }
  words += fmt::format(" --to native {} {}/out", in, at);
  converted(words);
  remove_tree(scratch / "out");
  std::string file;
  flip_a_bit(scratch, in, hf, file);
  EXPECT_THAT(refused(words, 3), AllOf(HasSubstr(file + " is damaged, in bytes"), HasSubstr("CRC-32")));
  EXPECT_FALSE(path_exists(scratch / "out"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Damage, testing::Values("hf", "meta", "dcp", "neox", "plain", "xser"),
                         [](const auto& info) { return std::string(info.param); });

// torch.serialization.set_crc32_options(False): zeros in place of the CRC-32s.
TEST(DamageOfZips, IsNotClaimedWherePyTorchWroteNoCrcs) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), hf = at + "/f/hf";
  foreign(fmt::format("make {}/f L=1 meta=0", at));
  make_bin(scratch, hf, at + "/in", "none");
  converted(fmt::format("--to hf {0}/in {0}/out", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/out", at)), "equal");
  const test::CommandResult verified = test::run_hearth("verify " + at + "/in");
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  EXPECT_THAT(verified.output, AllOf(HasSubstr("not checked: the zip files' values: PyTorch was told to write no CRC"),
                                     testing::Not(HasSubstr("the zip files' CRC-32s"))));
}

TEST(DamageOfZips, IsFoundByATrainingThatStartsFromTheWeights) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), in = at + "/in", hf = at + "/f/hf";
  foreign(fmt::format("make {}/f L=1 V=320 meta=0", at));
  make_bin(scratch, hf, in);
  write_text(scratch / "text.txt", std::string(300, 'a'));
  ASSERT_EQ(test::run_hearth(fmt::format("data build --out {0}/data --tokenizer bytes {0}/text.txt", at)).exit_code, 0);
  const test::CommandResult model = test::run_hearth("inspect --model " + in);
  ASSERT_EQ(model.exit_code, 0) << model.output;
  write_text(scratch / "run.toml",
             fmt::format(
                 "{}\n[job]\ndump_folder = \"{}/run\"\n[data]\npath = \"{}/data\"\n[training]\nsteps = 1\nseq_len = 8\n"
                 "global_batch_size = 1\nlocal_batch_size = 1\n[checkpoint]\ninitial_load_path = \"{}\"\n",
                 model.output, at, at, in));
  const auto train = [&] {
    remove_tree(scratch / "run");
    return test::run_command(fmt::format("timeout 100 {} train {}/run.toml", test::hearth_binary(), at));
  };
  EXPECT_EQ(train().exit_code, 0);
  std::string file;
  flip_a_bit(scratch, in, hf, file);
  const test::CommandResult damaged = train();
  EXPECT_EQ(damaged.exit_code, 3) << damaged.output;
  EXPECT_THAT(damaged.output, HasSubstr(file + " is damaged, in bytes"));
  remove_file(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const test::CommandResult waited = train();
  EXPECT_EQ(waited.exit_code, 2) << waited.output;
  EXPECT_THAT(waited.output, HasSubstr(file + " is a pipe, not a file"));
}

}  // namespace
}  // namespace hearth::convert
