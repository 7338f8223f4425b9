// SPDX-License-Identifier: Apache-2.0
// The output of a training's start: a few lines on the console, every key in RUN/config.toml, messages in RUN/logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "config/fields.h"
#include "run/run.h"
#include "run_process.h"
#include "support/hearth_command.h"
#include "support/python.h"

namespace hearth::train {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct TrainStart : TinyData {
  // A training's output. It must end with `code`.
  std::string output_of(const std::vector<std::string>& arguments, int code = 0) {
    std::vector<std::string> words = {"train", (scratch / "run.toml").string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Path log = scratch / "output";
    remove_file(log);
    EXPECT_EQ(RunProcess(words, log).wait(), code) << read_file(log);
    return read_file(log);
  }
  // The lines before the first step's.
  static std::vector<std::string> start_of(const std::string& output) {
    std::vector<std::string> lines = split_lines(output);
    const auto step =
        std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("step "); });
    EXPECT_TRUE(step != lines.end()) << output;
    lines.erase(step, lines.end());
    return lines;
  }
  const std::string file = R"([job]
dump_folder = "run"
[model]
dim = 32
n_layers = 2
n_heads = 8
n_kv_heads = 2
hidden_dim = 64
[training]
seq_len = 32
local_batch_size = 2
steps = 2
threads = 1
[optimizer]
lr = 0.01
[[optimizer.group]]
pattern = "*norm*"
lr_factor = 0.5
[lr_scheduler]
warmup_steps = 1
[validation]
freq = 1
steps = 1
[data]
path = "data"
)";
};

TEST_F(TrainStart, PrintsWhatWasChosenInAFewLinesAndEveryKeyOnRequest) {
  write_file_atomic(scratch / "run.toml", file);
  const std::string output = output_of({"--set", "training.max_norm=0.75"});
  const std::vector<std::string> lines = start_of(output);
  EXPECT_LE(lines.size(), 25u) << output;
  const std::string start = join(lines, "\n");
  // dim, steps and so on, as in the file.
  for (const std::string& line : split_lines(file + "max_norm = 0.75\n")) {
    // One of these is the default.
    if (line.starts_with("[") || line == "n_layers = 2") continue;
    EXPECT_THAT(start, HasSubstr(line));
  }
  for (const char* name : {"chosen", "run folder", "data", "model", "step", "memory", "step time", "run time"})
    EXPECT_THAT(start, testing::ContainsRegex(fmt::format("(^|\n)  {} ", name)));
  EXPECT_THAT(start, Not(HasSubstr("prefetch_threads"))) << "nobody chose it";

  const std::string all = output_of({"--restart", "--verbose"});
  for (const config::Field& field : config::fields())
    EXPECT_THAT(all, testing::ContainsRegex(fmt::format("(^|\n){} = ", field.key))) << field.name();
  EXPECT_THAT(all, HasSubstr("activations"));
  EXPECT_THAT(output, Not(HasSubstr("activations")));
}

TEST_F(TrainStart, AMixtureOfManySourcesTakesNoMoreLines) {
  config::RunConfig c = tiny_config(scratch);
  c.job.description = std::string(5000, 'd');
  c.data.path = "";
  for (uint64_t i = 0; i < 6; ++i) {
    make_folders(scratch / fmt::format("text-{}", i));
    write_file_atomic(scratch / fmt::format("text-{}/a.txt", i), tiny_text(50 + i, 500));
    data::BuildOptions options;
    options.out = scratch / fmt::format("data-{}", i);
    options.paths = {scratch / fmt::format("text-{}", i)};
    data::BuildProgress progress;
    data::build_dataset(options, progress);
    c.data.source.push_back({.path = options.out.string(), .weight = static_cast<double>(1 + i)});
  }
  const run::Run run = run::open_run(c);
  const std::string few = run.describe(), all = run.describe(true);
  EXPECT_LE(split_lines(few).size(), 22u) << few;
  for (const std::string& line : split_lines(few)) EXPECT_LE(line.size(), 150u);
  EXPECT_THAT(few, testing::ContainsRegex("2[0-9.]+ % of the sequences, .* epochs of .*data-5\n"));
  EXPECT_THAT(few, HasSubstr("\n               and 3 more\n"));
  for (int i = 0; i < 6; ++i) EXPECT_THAT(all, testing::ContainsRegex(fmt::format("% of the sequences.*data-{}\n", i)));
}

// Python's tomllib reads it. The values must be those of `hearth config show` for the trained file.
TEST_F(TrainStart, RunConfigTomlHasEveryKeyWithTheValueOfThisStart) {
  HEARTH_NEEDS_ORACLE();
  write_file_atomic(scratch / "run.toml", file);
  output_of({});
  output_of({"--set", "training.steps=3", "--set", "optimizer.lr=0.005"});
  const Path ours = scratch / "run/config.toml";
  const test::CommandResult shown = test::run_hearth(
      fmt::format("config show {} --set training.steps=3 --set optimizer.lr=0.005", (scratch / "run.toml").string()));
  ASSERT_EQ(shown.exit_code, 0) << shown.output;
  write_file_atomic(scratch / "shown.toml", shown.output);
  write_file_atomic(scratch / "compare.py", R"(
import os, sys, tomllib
ours, shown = (tomllib.load(open(path, 'rb')) for path in sys.argv[1:])
assert ours['training']['steps'] == 3 and ours['optimizer']['lr'] == 0.005, ours
# Paths begin at the file's folder.
for config, path in (ours, sys.argv[1]), (shown, sys.argv[2]):
    for section, key in ('job', 'dump_folder'), ('data', 'path'):
        config[section][key] = os.path.normpath(os.path.join(os.path.dirname(path), config[section][key]))
assert ours == shown, (ours, shown)
assert sum(len(section) for section in ours.values()) > 100
)");
  const test::CommandResult compared = test::run_python(
      fmt::format("{} {} {}", (scratch / "compare.py").string(), ours.string(), (scratch / "shown.toml").string()));
  EXPECT_EQ(compared.exit_code, 0) << compared.output;
  const test::CommandResult checked = test::run_hearth("config check " + ours.string());
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  // It is a run file of this run. The checkpoint has the previous start's values.
  const Path log = scratch / "output";
  EXPECT_EQ(RunProcess({"train", ours.string(), "--set", "training.steps=4"}, log).wait(), 0) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("continuing after step 3"));
  EXPECT_THAT(read_file(ours), HasSubstr("\nsteps = 4\n"));
  EXPECT_THAT(checkpoint::Reader::open(scratch / "run/checkpoints/step-00000003").manifest().config_toml,
              HasSubstr("\nsteps = 3\n"));
}

TEST_F(TrainStart, AFileOfSomebodysOwnIsNotOverwritten) {
  write_file_atomic(scratch / "run.toml", file);
  const Path theirs = scratch / "run/config.toml";
  make_folders(scratch / "run");
  write_file_atomic(theirs, "# mine\n");
  for (const std::vector<std::string>& how : {std::vector<std::string>{}, {"--restart"}})
    EXPECT_THAT(output_of(how, 2), HasSubstr("run/config.toml was not written by a training"));
  EXPECT_EQ(read_file(theirs), "# mine\n");
  EXPECT_FALSE(path_exists(scratch / "run/checkpoints"));
}

TEST_F(TrainStart, MessagesAndTheErrorThatEndsARunStandInTheLogOfTheRank) {
  write_file_atomic(scratch / "run.toml", file);
  const std::vector<std::string> bfloat16 = {"--set", "training.dtype=bfloat16", "--set",
                                             "training.mixed_precision_param=bfloat16"};
  EXPECT_THAT(output_of(bfloat16), HasSubstr("\nwarning: training.dtype = \"bfloat16\": updates below"));
  // Changes the tokens' bytes only.
  const Path shard = scratch / "data/train-000000-0000.shard";
  const std::string whole = read_file(shard);
  std::string bytes = whole;
  for (size_t at = bytes.size() / 4; at < bytes.size() / 2; ++at) bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_file_atomic(shard, bytes);
  std::vector<std::string> again = bfloat16;
  again.insert(again.end(), {"--set", "training.steps=300"});
  const std::string failed = output_of(again, 3);
  const std::string log = read_file(scratch / "run/logs/rank-00000.log");
  EXPECT_THAT(log, HasSubstr(" rank 0 warning: training.dtype = \"bfloat16\": updates below"));
  EXPECT_THAT(log, HasSubstr(" rank 0 info: saved "));
  EXPECT_THAT(log, HasSubstr(" rank 0 info: changed: training.steps: 2 -> 300\n"));
  EXPECT_THAT(log, EndsWith(failed.substr(failed.find("error: "))));
  write_file_atomic(shard, whole);
  EXPECT_THAT(output_of({"--restart"}), HasSubstr("moved the old run to "));
  EXPECT_EQ(read_file(scratch / "run/old-1/logs/rank-00000.log"), log);
  EXPECT_TRUE(path_exists(scratch / "run/old-1/config.toml"));
}

}  // namespace
}  // namespace hearth::train
