// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "run_file.h"

namespace hearth::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using LoadTest = RunFileTest;

TEST_F(LoadTest, WhatIsNotGivenHasItsDefault) {
  const RunConfig config = load(file(kComplete), {});
  const RunConfig defaults;
  for (const Field& field : fields()) {
    if (field.name() == "data.path" || field.name() == "training.steps" || field.name() == "lr_scheduler.warmup_steps")
      continue;
    EXPECT_EQ(field.value(config), field.value(defaults)) << field.name();
  }
  EXPECT_EQ(config.data.path, "d");
  EXPECT_EQ(config.training.steps, 10);
}

TEST_F(LoadTest, PathsAreRelativeToTheFolderOfTheFile) {
  const RunConfig config = load(file(kComplete), {"job.dump_folder=out"});
  EXPECT_EQ(config.resolve(config.data.path), folder_.path() / "d");
  EXPECT_EQ(config.checkpoint_folder(), folder_.path() / "out" / "checkpoints");
}

TEST_F(LoadTest, AnAbsolutePathStaysWhereItIs) {
  const RunConfig config = read_run(file(kComplete), {"data.path=/data/books"}).config;
  EXPECT_EQ(config.resolve(config.data.path), "/data/books");
}

TEST_F(LoadTest, SetBeatsFileBeatsFlavorBeatsDefault) {
  const LoadResult run = read_run(file("[model]\nflavor = \"8B\"\nn_layers = 3\nrope_theta = 7.0\n"),
                                  {"model.rope_theta=9", "model.rope_theta=11"});
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.config.model.dim, 4096);
  EXPECT_EQ(run.config.model.n_layers, 3);
  EXPECT_EQ(run.config.model.rope_theta, 11);  // the last --set
  EXPECT_EQ(run.config.model.norm_eps, 1e-5);
  EXPECT_EQ(run.origin("model.dim").kind, Origin::Kind::kFlavor);
  EXPECT_EQ(run.origin("model.n_layers").kind, Origin::Kind::kFile);
  EXPECT_EQ(run.origin("model.n_layers").line, 3);
  EXPECT_EQ(run.origin("model.rope_theta").kind, Origin::Kind::kSet);
  EXPECT_EQ(run.origin("model.norm_eps").kind, Origin::Kind::kDefault);
}

TEST_F(LoadTest, ANumberWithoutAFractionIsWholeAndAWholeNumberIsANumber) {
  const LoadResult run = read_run(file("[training]\ntokens = 3e8\nmax_norm = 2\n"), {"training.seq_len=1e3"});
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.config.training.tokens, 300000000);
  EXPECT_EQ(run.config.training.max_norm, 2.0);
  EXPECT_EQ(run.config.training.seq_len, 1000);
}

TEST_F(LoadTest, SetTakesEveryTypeAndTextWithOrWithoutQuotes) {
  const LoadResult run = read_run(
      {}, {"model.enable_weight_tying=true", "optimizer.lr=3e-4", "job.description=a = b", "data.path=\"x y\""});
  EXPECT_TRUE(run.problems.empty());
  EXPECT_TRUE(run.config.model.enable_weight_tying);
  EXPECT_EQ(run.config.optimizer.lr, 3e-4);
  EXPECT_EQ(run.config.job.description, "a = b");
  EXPECT_EQ(run.config.data.path, "x y");
}

TEST_F(LoadTest, FiveErrorsOfAFileAreReportedAtOnceInItsOrder) {
  EXPECT_EQ(error_of("[training]\n"
                     "setps = 100\n"
                     "seq_len = \"long\"\n"
                     "[optimizer]\n"
                     "beta2 = 1.5\n"
                     "[lr_scheduler]\n"
                     "decay_type = \"cubic\"\n"
                     "[data]\n"
                     "path = \"d\"\n"),
            "error: run.toml has 5 errors\n"
            "  run.toml:2: training.setps is not a key\n"
            "      fix: did you mean training.steps?\n"
            "  run.toml:3: training.seq_len = \"long\": not a whole number\n"
            "  run.toml:5: optimizer.beta2 = 1.5 is out of range\n"
            "      fix: give at least 0, less than 1\n"
            "  run.toml:7: lr_scheduler.decay_type = \"cubic\" is not a choice\n"
            "      fix: give one of \"linear\", \"cosine\", \"sqrt\", \"exponential\", \"constant\", "
            "\"cosine_with_restarts\", "
            "\"polynomial\"\n"
            "  run.toml: the length of the training is not given\n"
            "      fix: give one of training.steps, training.tokens and training.epochs");
}

TEST_F(LoadTest, ErrorsStandInTheOrderOfTheFileWhateverFoundThem) {
  const std::string message =
      error_of("[model]\nn_heads = 3\n" + std::string(kComplete) + "seq_len = 0\n[lr]\n", {"training.seed=x"});
  size_t last = 0;
  for (const char* line :
       {"run.toml:2: model.n_heads", "run.toml:9: training.seq_len", "run.toml:10: [lr]", "--set: "}) {
    EXPECT_GT(message.find(line), last) << line << "\n" << message;
    EXPECT_THAT(message, HasSubstr(line)) << line << "\n" << message;
    last = message.find(line);
  }
}

TEST_F(LoadTest, AnUnknownKeyNamesTheNearestOneOfItsSectionOrOfAnother) {
  const std::string base = kComplete;
  EXPECT_EQ(error_of(base + "[model]\nn_head = 4\n"),
            "error: run.toml:8: model.n_head is not a key\n  fix: did you mean model.n_heads?");
  EXPECT_EQ(error_of(base + "[model]\nlr = 4\n"),
            "error: run.toml:8: model.lr is not a key\n  fix: did you mean optimizer.lr?");
  EXPECT_EQ(error_of(base + "zebra = true\n"),
            "error: run.toml:7: training.zebra is not a key\n"
            "  fix: remove it; `hearth config docs` lists every key");
  EXPECT_EQ(error_of("seq_len = 3\n" + base),
            "error: run.toml:1: seq_len stands outside of a section\n  fix: did you mean training.seq_len?");
}

TEST_F(LoadTest, AnUnknownSectionIsOneErrorAndNamesTheNearest) {
  EXPECT_EQ(error_of(std::string(kComplete) + "[optimiser]\nlr = 1\nbeta1 = 0.5\n"),
            "error: run.toml:7: [optimiser] is not a section\n  fix: did you mean [optimizer]?");
  EXPECT_THAT(error_of(std::string(kComplete) + "[zebras]\n"),
              HasSubstr("the sections are job, model, objective, optimizer"));
}

TEST_F(LoadTest, ACheckpointToBeginWithIsLookedForWhereTheTrainingLooksForIt) {
  const std::string text = std::string(kComplete) + "[checkpoint]\ninitial_load_path = \"../before\"\n";
  EXPECT_THAT(error_of(text), HasSubstr("run.toml:8: checkpoint.initial_load_path = \"../before\": "))
      << error_of(text);
  EXPECT_THAT(error_of(text),
              HasSubstr("before does not exist\n  fix: paths start at the run file's folder; give a checkpoint"));
  EXPECT_EQ(error_of(text, {"checkpoint.initial_load_path=web"}), "no error");
  make_folders(folder_ / "checkpoints");  // the run has begun, and continues with its own file
  EXPECT_EQ(error_of(text), "no error");
}

TEST_F(LoadTest, ValuesOfTorchtitansHaveOurNames) {
  const std::string base = kComplete;
  EXPECT_THAT(error_of(base + "[model]\nnorm_type = \"fused_rmsnorm\"\n"),
              AllOf(HasSubstr("run.toml:8: model.norm_type = \"fused_rmsnorm\""), HasSubstr("write \"rmsnorm\"")));
  EXPECT_THAT(
      error_of(base + "[checkpoint]\nasync_mode = \"async_with_pinned_mem\"\n"),
      AllOf(HasSubstr("run.toml:8: checkpoint.async_mode = \"async_with_pinned_mem\""), HasSubstr("write \"async\"")));
  EXPECT_THAT(error_of(base + "[checkpoint]\nlast_save_model_only = true\nexport_dtype = \"float16\"\n"),
              AllOf(HasSubstr("run.toml:9: checkpoint.export_dtype = \"float16\""),
                    HasSubstr("hearth convert --to hf --dtype float16")));
  EXPECT_THAT(error_of(base + "[model]\nname = \"llama\"\n"),
              AllOf(HasSubstr("run.toml:8: model.name = \"llama\""), HasSubstr("\"llama2\""), HasSubstr("\"llama3\"")));
}

TEST_F(LoadTest, AnExportNeedsTheLastSaveToBeOfTheModelOnly) {
  const std::string base = kComplete;
  EXPECT_THAT(error_of(base + "[checkpoint]\nlast_save_in_hf = true\n"),
              AllOf(HasSubstr("run.toml:8: checkpoint.last_save_in_hf = true"),
                    HasSubstr("checkpoint.last_save_model_only = true")));
  EXPECT_THAT(error_of(base + "[checkpoint]\nexport_dtype = \"bfloat16\"\n"),
              AllOf(HasSubstr("run.toml:8: checkpoint.export_dtype = \"bfloat16\""),
                    HasSubstr("checkpoint.last_save_model_only = true")));
  EXPECT_EQ(error_of(base + "[checkpoint]\nlast_save_model_only = true\nlast_save_in_hf = true\n"), "no error");
}

// A GPU computes in bfloat16 unless something else is said.
TEST_F(LoadTest, TheDeviceDecidesTheElementTypeThatIsNotGiven) {
  const auto type = [&](const std::vector<std::string>& sets) {
    return read_run(file(kComplete), sets).config.training.mixed_precision_param;
  };
  EXPECT_EQ(type({}), DType::kFloat32);
  EXPECT_EQ(type({"training.device=cuda"}), DType::kBFloat16);
  EXPECT_EQ(type({"training.device=cuda", "training.mixed_precision_param=float32"}), DType::kFloat32);
}

TEST_F(LoadTest, WrongTypesSayWhatIsExpected) {
  const std::string base = kComplete;
  EXPECT_EQ(error_of(base + "seq_len = 10.5\n"), "error: run.toml:7: training.seq_len = 10.5: not a whole number");
  EXPECT_EQ(error_of(base + "max_norm = \"1\"\n"), "error: run.toml:7: training.max_norm = \"1\": not a number");
  EXPECT_EQ(error_of(base + "dtype = 32\n"), "error: run.toml:7: training.dtype = 32: not a text in quotes");
  EXPECT_EQ(error_of(base + "[model]\ndim = [1, 2]\n"), "error: run.toml:8: model.dim is a list: not a whole number");
  EXPECT_EQ(error_of(base + "[model]\ndepth_init = 1\n"), "error: run.toml:8: model.depth_init = 1: not true or false");
}

TEST_F(LoadTest, NumbersOutsideTheirBoundsSayWhatIsAllowed) {
  const std::string base = kComplete;
  EXPECT_EQ(
      error_of(base + "local_batch_size = 0\n"),
      "error: run.toml:7: training.local_batch_size = 0 is out of range\n  fix: give at least 1, at most 1048576");
  EXPECT_EQ(error_of(base + "max_norm = nan\n"),
            "error: run.toml:7: training.max_norm = nan is out of range\n  fix: give at least 0");
}

TEST_F(LoadTest, ASyntaxErrorNamesItsLineAndNothingThatMayStandBelow) {
  EXPECT_EQ(error_of("[training]\nsteps = 5\nsteps = 6\n"),
            "error: run.toml:3: this is not TOML: cannot redefine existing integer 'steps'");
  EXPECT_EQ(error_of("[training]\nsteps = \n").find("error: run.toml:2: this is not TOML: "), 0u);
  // Without our checks, toml++ ends the process here, overflows the stack, or has undefined behaviour (U+FEC0).
  EXPECT_EQ(error_of("[training]\nsteps = 5\n[\n[data]\n"), "error: run.toml:3: this is not TOML: a key was expected");
  EXPECT_EQ(error_of("[training]\n\xef\xbb\x80steps = 5\n").find("error: run.toml:2: this is not TOML: "), 0u);
  std::string deep = "[training]\n";
  for (int i = 0; i < 30000; ++i) deep += "a.";
  EXPECT_EQ(error_of(deep + "a = 1\n"), "error: run.toml:2: this is not TOML: it has more than 10000 dots up to here");
}

TEST_F(LoadTest, ErrorsOfSetAreReportedBesideThoseOfTheFile) {
  EXPECT_EQ(error_of(std::string(kComplete) + "seed = -1\n",
                     {"nonsense", "training.stesp=5", "optimizer.lr=fast", "model.depth_init=yes"}),
            "error: run.toml has 5 errors\n"
            "  run.toml:7: training.seed = -1 is out of range\n"
            "      fix: give at least 0\n"
            "  --set: \"nonsense\" is not section.key=value\n"
            "      fix: write for example --set training.steps=1000\n"
            "  --set: training.stesp is not a key\n"
            "      fix: did you mean training.steps?\n"
            "  --set: optimizer.lr = fast: not a number\n"
            "  --set: model.depth_init = yes: not true or false");
}

TEST_F(LoadTest, AMissingFileIsAUserError) {
  try {
    load(folder_ / "gone.toml", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_THAT(std::string(error.what()), HasSubstr("gone.toml"));
  }
}

// Every key away from its default, with numbers that a short decimal cannot hold.
RunConfig unusual() {
  RunConfig config;
  for (const List& list : lists()) list.resize(config, 2);
  int64_t i = 1;
  for (const auto& [at, item] : entries(config)) {
    const Field& field = *at;
    const FieldPointer pointer = field.pointer(config, item);
    if (auto* const* flag = std::get_if<bool*>(&pointer)) **flag = !**flag;
    if (auto* const* whole = std::get_if<int64_t*>(&pointer))
      **whole = static_cast<int64_t>(std::min(static_cast<double>(**whole + i), field.limits.most));
    if (auto* const* number = std::get_if<double*>(&pointer)) **number = 1.0 / static_cast<double>(3 * i + 1);
    if (auto* const* numbers = std::get_if<Numbers*>(&pointer)) **numbers = {1.0 / 3, static_cast<double>(i), 0};
    if (auto* const* names = std::get_if<Names*>(&pointer)) {
      const auto& choices = field.limits.choices;
      **names = choices.empty() ? Names{"a \"quoted\" name", ""} : Names{std::string(choices.front())};
    }
    auto* const* text = std::get_if<std::string*>(&pointer);
    if (text != nullptr && field.limits.choices.empty()) **text = "a \"b\" \\ c\td\n\x01 \xc3\xa9" + std::to_string(i);
    if (text != nullptr && !field.limits.choices.empty()) **text = field.limits.choices.back();
    if (std::holds_alternative<ChoicePointer>(pointer))
      field.set(config, item, Value(std::string(field.limits.choices.back())));
    ++i;
  }
  config.model.rope_theta = 1e6 / 3;
  config.model.rope_scaling_factor = 100.0 / 3;
  config.model.rope_local_theta = 1e4 / 3;
  config.model.rope_short_factor = config.model.rope_long_factor = {1.0 / 3, 28, 1e-9};
  return config;
}

TEST_F(LoadTest, TheResolvedConfigurationReadsBackAsTheSameBits) {
  const RunConfig before = unusual();
  const RunConfig after = from_toml_text(to_toml(before), "hearth.json", "base");
  ASSERT_EQ(entries(before).size(), entries(after).size());
  for (const auto& [field, item] : entries(before))
    EXPECT_EQ(field->value(before, item), field->value(after, item)) << field->name(item);
  EXPECT_EQ(after.base_folder, "base");
  EXPECT_EQ(to_toml(after), to_toml(before));
}

TEST_F(LoadTest, ARunFileWithAFlavorAndAFractionOfWarmUpSurvivesBeingStored) {
  const RunConfig before =
      load(file("[model]\nflavor = \"8B\"\nhidden_dim = 64\n[lr_scheduler]\nwarmup_fraction = 0.1\n"
                "[training]\nsteps = 10\n[data]\npath = \"d\"\n"),
           {});
  EXPECT_EQ(before.lr_scheduler.warmup_steps, 0);
  write_file_atomic(folder_ / "stored.toml", to_toml(before));
  const RunConfig after = load(folder_ / "stored.toml", {});
  for (const Field& field : fields()) EXPECT_EQ(field.value(before), field.value(after)) << field.name();
}

std::string hex(const std::string& text) {
  std::string digits;
  for (const char c : text) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return digits;
}

// Python's TOML reader checks what to_toml writes.
TEST_F(LoadTest, PythonReadsTheSameValuesFromTheResolvedConfiguration) {
  const RunConfig config = unusual();
  const Path toml = file(to_toml(config));
  const test::CommandResult python = test::run_command(
      "python3 -c \"\nimport sys, tomllib\n"
      "def show(name, v):\n"
      "  if isinstance(v, dict):\n"
      "    for key, value in v.items(): show(name + '.' + key, value)\n"
      "  elif isinstance(v, list):\n"
      "    for key, value in enumerate(v): show(name + '.' + str(key), value)\n"
      "  else:\n"
      "    t = v.hex() if isinstance(v, float) else v.encode().hex() if isinstance(v, str) else str(v).lower()\n"
      "    print(name[1:], type(v).__name__, t)\n"
      "show('', tomllib.load(open(sys.argv[1], 'rb')))\n\" " +
      toml.string());
  std::string expected;
  for (const auto& [field, item] : entries(config)) {
    const Value value = field->value(config, item);
    std::string text;
    char buffer[64];
    if (const auto* numbers = std::get_if<Numbers>(&value)) {
      for (size_t i = 0; i < numbers->size(); ++i) {
        std::snprintf(buffer, sizeof buffer, "%.13a", (*numbers)[i]);
        if ((*numbers)[i] == 0) std::snprintf(buffer, sizeof buffer, "0x0.0p+0");
        expected += field->name(item) + "." + std::to_string(i) + " float " + buffer + "\n";
      }
      continue;
    }
    if (const auto* names = std::get_if<Names>(&value)) {
      for (size_t i = 0; i < names->size(); ++i)
        expected += field->name(item) + "." + std::to_string(i) + " str " + hex((*names)[i]) + "\n";
      continue;
    }
    if (const auto* flag = std::get_if<bool>(&value)) text = *flag ? "bool true" : "bool false";
    if (const auto* whole = std::get_if<int64_t>(&value)) text = "int " + std::to_string(*whole);
    if (const auto* number = std::get_if<double>(&value)) {
      std::snprintf(buffer, sizeof buffer, "%.13a", *number);
      text = std::string("float ") + buffer;
    }
    if (const auto* string = std::get_if<std::string>(&value)) text = "str " + hex(*string);
    expected += field->name(item) + " " + text + "\n";
  }
  EXPECT_EQ(python.exit_code, 0);
  EXPECT_EQ(python.output, expected);
}

}  // namespace
}  // namespace hearth::config
