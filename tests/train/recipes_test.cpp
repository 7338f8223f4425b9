// Every run file of configs/: its opening says what `hearth plan` says, and its small twin - the same objective, norm,
// optimizer, schedule, order and precision on a tiny model and tiny data - trains.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "config/derived.h"
#include "config/load.h"
#include "plan/memory.h"
#include "plan/parameters.h"
#include "plan/precision.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

std::vector<Path> recipes() {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("configs")))
    if (entry.path().extension() == ".toml" && entry.path().stem() != "quickstart") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

struct Recipes : testing::TestWithParam<Path> {
  config::RunConfig recipe() const {
    const config::LoadResult loaded = config::read_run(GetParam(), {});
    EXPECT_TRUE(loaded.problems.empty()) << loaded.problems.front().what;
    return loaded.config;
  }
  // The dataset number `i` of a run: of the kind its objective needs, unlike the others.
  std::string build(const config::RunConfig& c, size_t i) const {
    const std::string name = fmt::format("data{}", i);
    const bool is_new = !path_exists(scratch / name);
    if (c.objective.kind == "spike_lm") {
      if (is_new) build_tiny_spikes(scratch, name, 12, i + 1, "spikes", 0);
      return name;
    }
    if (is_new) build_tiny_data(scratch / name, 300 + static_cast<int64_t>(i));
    return name + "/data";
  }
  // The recipe with everything large made small.
  config::RunConfig twin(const std::string& name) const {
    config::RunConfig c = recipe();
    c.base_folder = scratch;
    c.job.dump_folder = name;
    c.model.flavor = "";
    c.model.dim = 32;
    c.model.n_layers = 2;
    c.model.n_heads = 4;
    c.model.n_kv_heads = c.model.n_kv_heads == c.model.n_heads ? 4 : 2;
    c.model.hidden_dim = 64;
    c.model.ffn_dim_multiplier = 0;
    c.model.vocab_size = 0;
    if (c.objective.masked()) {  // bytes have no mask of their own
      c.model.vocab_size = 259;
      c.objective.mask_token.clear();
      c.objective.mask_id = 258;
    }
    c.training.seq_len = 32;
    c.training.local_batch_size = 2;
    c.training.global_batch_size = 4;
    c.training.steps = 20;
    c.training.threads = 1;
    c.lr_scheduler.warmup_steps = 5;
    c.optimizer.lr = 3e-3;
    c.checkpoint.interval = 0;
    if (!c.data.path.empty()) c.data.path = build(c, 0);
    for (size_t i = 0; i < c.data.source.size(); ++i) c.data.source[i].path = build(c, i);
    return c;
  }
  test::ScratchFolder scratch;
};

TEST_P(Recipes, OpensWithItsArithmetic) {
  const config::RunConfig c = recipe();
  const plan::ModelShape shape = plan::model_shape(c, 0);
  plan::ModelShape full = shape;
  full.causal = false;
  const std::string text = read_file(GetParam());
  const auto number = [&](const std::string& pattern) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex(pattern))) << pattern;
    if (found.empty()) return 0.0;
    const std::string unit = found.size() > 2 ? found[2].str() : "";
    return std::stod(std::regex_replace(found[1].str(), std::regex(","), "")) * (unit == "T"   ? 1e12
                                                                                 : unit == "B" ? 1e9
                                                                                 : unit == "M" ? 1e6
                                                                                               : 1);
  };
  constexpr double kRounding = 1e-3;
  const auto parameters = static_cast<double>(plan::parameter_plan(shape).num_parameters);
  EXPECT_NEAR(number("# ([0-9.]+) ([MBT]) parameters") / parameters, 1, kRounding);
  const double tokens = static_cast<double>(config::tokens_per_step(c));
  EXPECT_NEAR(number("tokens = ([0-9.]+) ([MBT]) tokens") / tokens, 1, kRounding);
  EXPECT_EQ(number("([0-9,]+) steps are"), static_cast<double>(c.training.steps));
  const double flops = plan::flops_per_token(shape, c.training.seq_len);
  EXPECT_NEAR(1e9 * number("# ([0-9.]+) GFLOP a token") / flops, 1, kRounding);
  EXPECT_NEAR(number(", ([0-9.]+e\\+[0-9]+) FLOP in all") / (flops * tokens * static_cast<double>(c.training.steps)), 1,
              6e-3);
  double bytes = 0;
  for (const plan::MemoryItem& item : plan::weights_memory(plan::parameter_plan(shape), plan::precision(c), 1))
    bytes += static_cast<double>(item.bytes);
  EXPECT_NEAR(1e9 * number("bytes a parameter, ([0-9.]+) GB on one rank") / bytes, 1, kRounding);
  if (shape.causal) {
    EXPECT_NEAR(1e9 * number("\\(([0-9.]+) GFLOP? counting all") / plan::flops_per_token(full, c.training.seq_len), 1,
                kRounding);
  }
}

TEST_P(Recipes, ItsSmallTwinTrainsForTwentySteps) {
  config::RunConfig c = twin("run");
  if (!c.checkpoint.initial_load_path.empty()) {
    // What it goes on from: a model of the same vocabulary, or, where input and output are fresh, of text.
    config::RunConfig before = twin("before");
    before.checkpoint = {};
    before.checkpoint.interval = 0;
    before.training.steps = 5;
    if (!c.checkpoint.fresh.empty()) {
      before.objective = {};
      before.data.path = build(before, 7);
    }
    train(before);
    c.checkpoint.initial_load_path = "before";
  }
  const auto records = train(c);
  ASSERT_EQ(records.size(), 20u);
  double first = 0, last = 0;
  for (size_t i = 0; i < 4; ++i) {
    first += *records[i].loss;
    last += *records[records.size() - 1 - i].loss;
  }
  EXPECT_LT(last, first);
}

INSTANTIATE_TEST_SUITE_P(Configs, Recipes, testing::ValuesIn(recipes()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace hearth::train
