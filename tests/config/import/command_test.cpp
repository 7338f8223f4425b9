// SPDX-License-Identifier: Apache-2.0
// Commands as bash prints them: each trace here is made by bash, and read back to the words that bash was given.
#include "config/import/command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "config/import/imported.h"
#include "support/environment.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> texts_of(const std::vector<CommandWord>& words) {
  std::vector<std::string> texts;
  for (const CommandWord& word : words) texts.push_back(word.text);
  return texts;
}

// What `bash -x` prints while it runs a script.
std::string traced(const std::string& script) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "script.sh", script);
  const test::CommandResult result =
      test::run_command(fmt::format("env -i PATH=/usr/bin:/bin bash -x '{}' 2>&1", (folder / "script.sh").string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

TEST(Command, ReadsTheWordsThatBashPrints) {
  const std::string trace = traced(
      "A=(--name \"a b\" '' \"it's\" 'say \"so\"' '$HOME' 'x\ty' \"$(printf 'two\\nlines')\" '{\"a\": 1}' 'a*' '~' "
      "'#no' 'a;b' back\\\\slash '`x`' $'\\xc3\\xa9' --last=1)\ntrue \"${A[@]}\" 2>&1\n");
  const CommandText read = read_command_text(trace);
  EXPECT_TRUE(read.trace);
  const auto found = std::find_if(read.commands.begin(), read.commands.end(),
                                  [](const auto& words) { return words.front().text == "true"; });
  ASSERT_NE(found, read.commands.end()) << trace;
  EXPECT_THAT(texts_of(*found),
              ElementsAre("true", "--name", "a b", "", "it's", "say \"so\"", "$HOME", "x\ty", "two\nlines",
                          "{\"a\": 1}", "a*", "~", "#no", "a;b", "back\\slash", "`x`", "\xc3\xa9", "--last=1"));
}

TEST(Command, ReadsAPastedCommandOverSeveralLines) {
  const CommandText read = read_command_text(
      "# how it ran\n$ OMP_NUM_THREADS=1 torchrun --nproc_per_node=8 \\\n  train.py --lr 1e-4 \\\n  --name \"a b\" \\\n"
      "--seed 3 \\\n  --split '99,1,0' 2>&1 |& tee log.txt # a comment\n");
  EXPECT_FALSE(read.trace);
  ASSERT_EQ(read.commands.size(), 1u);
  EXPECT_THAT(texts_of(read.commands[0]), ElementsAre("torchrun", "--nproc_per_node=8", "train.py", "--lr", "1e-4",
                                                      "--name", "a b", "--seed", "3", "--split", "99,1,0"));
  std::vector<int> lines;
  for (const CommandWord& word : read.commands[0]) lines.push_back(word.line);
  EXPECT_THAT(lines, ElementsAre(2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6));
  EXPECT_THAT(texts_of(read.environment), ElementsAre("OMP_NUM_THREADS=1"));
  EXPECT_THAT(texts_of(read_command_text("export A=1 B='2 3'\nC=\n").names), ElementsAre("A=1", "B=2 3", "C="));
  EXPECT_THAT(texts_of(read_command_text("srun a.py --x 1 > out.txt 2> err.txt &\n").commands[0]),
              ElementsAre("srun", "a.py", "--x", "1"));
}

// What a text says that only bash can expand.
std::string fault_of(const std::string& text) {
  try {
    read_command_text(text);
  } catch (const CommandFault& fault) {
    return fmt::format("{}: {}", fault.line, fault.what);
  }
  return "none";
}

TEST(Command, NamesWhatOnlyBashKnowsWithItsLine) {
  EXPECT_EQ(fault_of("#!/bin/bash\ntrain.py --lr 1\n"), "1: it begins with #!");
  EXPECT_EQ(fault_of("train.py --a 1 \\\n --lr $LR\n"), "2: $LR stands here");
  EXPECT_EQ(fault_of("train.py --lr \"${LR:-1}\"\n"), "1: ${LR:-1} stands here");
  EXPECT_EQ(fault_of("train.py --lr $(cat x)\n"), "1: the output of a command stands here, in $( )");
  EXPECT_EQ(fault_of("train.py --lr `cat x`\n"), "1: the output of a command stands here, in ` `");
  EXPECT_EQ(fault_of("train.py --batch $((8 * 2))\n"), "1: arithmetic stands here, in $(( ))");
  EXPECT_EQ(fault_of("train.py --lr 1 $@\n"), "1: $@ stands here");
  EXPECT_EQ(fault_of("A=(--lr 1)\n"), "1: `(` stands here");
  EXPECT_EQ(fault_of("f() { train.py; }\n"), "1: `(` stands here");
  EXPECT_EQ(fault_of("if true\nthen\n"), "1: `if` stands here");
  EXPECT_EQ(fault_of("cd x && train.py --lr 1\n"), "1: `&` stands here");
  EXPECT_EQ(fault_of("cd x\ntrain.py --lr 1\n"), "2: a second command stands here, `train.py`");
  EXPECT_EQ(fault_of("cat <<END\nx\nEND\n"), "1: `<` stands here");
  EXPECT_EQ(fault_of("train.py --x {a,b}\n"), "1: bash makes several words of {a,b}");
  EXPECT_EQ(fault_of("train.py --x 'a\n"), "1: a ' has no end");
  EXPECT_EQ(fault_of("train.py --x \"a\n"), "1: a \" has no end");
  EXPECT_EQ(fault_of("train.py --x $'a\\"), "1: a $' has no end");
  EXPECT_EQ(fault_of("train.py --x '{\"a\": 1}' --y 5$ --z \"a$\"\n"), "none");
}

TEST(Command, IsToldFromFilesOfKeys) {
  for (const char* text : {"torchrun train.py --lr 1\n", "--lr 1\n", "LR=1\n", "export LR=1\n", "+ train.py --lr 1\n",
                           "#!/bin/sh\n", "# x\nsrun -n 4 train.py\n", "if [ -n x ]; then\n", "source env.sh\n",
                           "python run_clm.py args.json\n", "torchrun train.py\n"})
    EXPECT_TRUE(is_command_text(text)) << text;
  for (const char* text :
       {"{\"lr\": 1}\n", "lr: 1\n", "# --lr 1\nlr: 1\nargs: --x\n", "a:\n  - --lr\n", "---\nlr: 1\n", "python\n", ""})
    EXPECT_FALSE(is_command_text(text)) << text;
}

constexpr const char* kScript =
    "#!/bin/bash\nLR=1e-3\nARGS=(\n  --learning_rate $LR\n  --max_steps 10\n)\nmkdir -p out\npython tokenize.py\n"
    "torchrun --nproc_per_node 2 run_clm.py \"${ARGS[@]}\" --block_size 64\n";

TEST_F(ImportTest, AScriptIsRefusedWithTheLineToPaste) {
  EXPECT_THAT(error({{"train.sh", kScript}}),
              AllOf(HasSubstr("train.sh:1: this is a script, and scripts are not run here: it begins with #!"),
                    HasSubstr("line 9 looks like it"), HasSubstr("`bash -x train.sh 2>&1 | tee trace.txt`"),
                    HasSubstr("hearth config import trace.txt"), HasSubstr("hearth config import -")));
  // Also where the kind is given, and beside another file.
  EXPECT_THAT(error({{"train.sh", kScript}}, {.ranks = 1}, "transformers"), HasSubstr("train.sh:1: this is a script"));
  EXPECT_THAT(error({{"a.json", "{\"max_steps\": 1}"}, {"t.sh", "LR=$X\nrun_clm.py --learning_rate $LR\n"}}),
              HasSubstr("t.sh:1: this is a script, and scripts are not run here: $X stands here"));
  // An array in an assignment, whose elements bash joins with blanks.
  EXPECT_THAT(error({{"t", "D=(0.3 a 0.7 b)\nB=\"${D[@]}\"\npretrain_gpt.py --num-layers 2 --data-path $B\n"}}),
              HasSubstr("t:1: this is a script"));
}

TEST_F(ImportTest, TheTraceOfAScriptIsItsTraining) {
  std::string script = kScript;
  script.insert(script.find("LR="), "torchrun() { :; }; python() { :; }\n");
  const std::string trace = "warning: something a program printed --seed 3\n" + traced(script);
  const RunConfig c = import({{"trace.txt", trace}}).config;
  EXPECT_EQ(c.optimizer.lr, 1e-3);
  EXPECT_EQ(c.training.steps, 10);
  EXPECT_EQ(c.training.seq_len, 64);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 2);
  EXPECT_EQ(c.training.seed, 42);
  EXPECT_THAT(error({{"trace.txt", "+ run_clm.py --max_steps 1\n+ run_clm.py --max_steps 2\n"}}),
              HasSubstr("trace.txt:2: a second training starts here; the first is in line 1"));
  EXPECT_EQ(import({{"trace.txt", "+ run_clm.py --max_steps 1\n++ date\n+ run_clm.py --max_steps 1\n"}}, {.ranks = 1})
                .config.training.steps,
            1);
  EXPECT_THAT(error({{"trace.txt", "+ echo --max_steps 1\n+ ls -l\n"}}),
              HasSubstr("no command of this trace has an option of a trainer"));
}

TEST_F(ImportTest, ACommandInsideBashIsRead) {
  const RunConfig c =
      import({{"run.txt", "srun -n 4 bash -c 'python run_clm.py --max_steps 10 --block_size 64'\n"}}).config;
  EXPECT_EQ(c.training.steps, 10);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 4);
}

TEST_F(ImportTest, NamesAndValuesAreOptionsInCapitals) {
  const RunConfig c = import({{"env",
                               "LEARNING_RATE=1e-3\nexport MAX_STEPS=10\nblock_size=64\nNCCL_ALGO=Tree\nSEED=1\n"
                               "SEED=7\n"}},
                             {.ranks = 1})
                          .config;
  EXPECT_EQ(c.optimizer.lr, 1e-3);
  EXPECT_EQ(c.training.steps, 10);
  EXPECT_EQ(c.training.seq_len, 64);
  EXPECT_EQ(c.training.seed, 7);
  EXPECT_THAT(import_text({{"env", "LEARNING_RATE=1e-3\nNCCL_ALGO=Tree\n"}}, {.ranks = 1}),
              HasSubstr("# Variables of the environment, which are not read:\n#   env:2  NCCL_ALGO = \"Tree\"\n"));
  EXPECT_THAT(error({{"env", "learning_rate=1e-3\nmax_stepz=10\n"}}, {.ranks = 1}),
              HasSubstr("env:2: Transformers has no option max_stepz\n  fix: did you mean max_steps?"));
}

TEST_F(ImportTest, AFlagWithNoInFrontIsFalse) {
  const RunConfig c =
      import({{"run.txt", "run_clm.py --max_steps 10 --no_average_tokens_across_devices --no-bf16\n"}}, {.ranks = 1})
          .config;
  EXPECT_EQ(c.numerics.loss_average, LossAverage::kPerRank);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kFloat32);
}

TEST_F(ImportTest, FilesThatACommandNamesMustBeGiven) {
  EXPECT_THAT(error({{"run.txt", "python deepy.py train.py -d configs 7B.yml local\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("run.txt:1: the training also reads 7B.yml\n      fix: give it, too"),
                    HasSubstr("run.txt:1: the training also reads local.yml")));
  EXPECT_THAT(error({{"run.txt", "run_clm.py args.json --learning_rate 1\n"}}, {.ranks = 1}),
              HasSubstr("the training also reads args.json"));
}

}  // namespace
}  // namespace hearth::config
