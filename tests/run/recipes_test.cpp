// SPDX-License-Identifier: Apache-2.0
// Every run file of configs/: its opening says what `hearth plan` says, its commands and variants are taken, and its
// small twin - the same objective, norm, optimizer, schedule, order, precision and recomputation on a tiny model and
// tiny data - trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

#include "base/quantity.h"
#include "base/text.h"
#include "config/derived.h"
#include "config/load.h"
#include "machine/device.h"
#include "plan/layouts/search.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"
#include "recordings/patch_file.h"
#include "support/hearth_command.h"
#include "train/tiny_run.h"

namespace hearth::run {
namespace {

using testing::HasSubstr;

std::vector<Path> recipes() {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("configs")))
    if (entry.path().extension() == ".toml" && entry.path().stem() != "quickstart") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Meshes that the seeds' files state; sequences of a micro-batch.
struct SeedMesh {
  std::string_view recipe;
  const char* device;
  int64_t replicate, shard, tensor, stage, sequences;
  config::RecomputeChoice recompute;
};
constexpr SeedMesh kSeedMeshes[] = {
    {"llama3_1b_131k", "MI250X GCD", 1, 16, 8, 3, 1, config::RecomputeChoice::kBlock},
    {"llama3_8b_layernorm", "MI250X GCD", 1, 64, 1, 3, 1, config::RecomputeChoice::kNorms},
    {"llama3_8b_scratch", "MI250X GCD", 16, 32, 8, 3, 21, config::RecomputeChoice::kBlock},
    {"llama3_8b_text", "MI250X GCD", 2, 32, 8, 3, 21, config::RecomputeChoice::kBlock},
    {"llama3_8b_wikitext", "MI250X GCD", 1, 512, 1, 3, 4, config::RecomputeChoice::kBlock},
    {"llemma_34b", "A100", 1, 32, 8, 1, 2, config::RecomputeChoice::kBlock},
    {"llemma_7b", "A100", 1, 128, 2, 1, 4, config::RecomputeChoice::kBlock},
    {"mlm_1b", "MI250X GCD", 2, 32, 8, 3, 12, config::RecomputeChoice::kBlock},
};

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

struct Recipes : testing::TestWithParam<Path> {
  config::RunConfig recipe() const {
    const config::LoadResult loaded = config::read_run(GetParam(), {});
    EXPECT_TRUE(loaded.problems.empty()) << loaded.problems.front().what;
    return loaded.config;
  }
  std::string opening() const {
    std::string text;
    for (const std::string& line : split_lines(read_file(GetParam()))) {
      if (!line.starts_with("#")) break;
      text += line + "\n";
    }
    return text;
  }
  // Builds recordings as the opening's command builds them; where it takes all neurons, few enough for a tiny window.
  int64_t neurons() const {
    const std::string text = opening();
    std::smatch found;
    return std::regex_search(text, found, std::regex("--n-fixed ([0-9]+)")) ? std::stoll(found[1].str()) : 12;
  }
  // The recipe's kind. Synthetic recordings consist of two kinds of patches.
  std::string tokenizer_name() const {
    if (opening().find("--tokenizer spikes") != std::string::npos) return "spikes";
    recordings::PatchVocabulary v;
    v.shape = {1, 15};
    v.vocab_size = 16;
    v.references = std::string(15, '\0') + std::string(15, '\1');
    write_file_atomic(scratch / "x.patches", recordings::patch_file(v));
    return (scratch / "x.patches").string();
  }
  // The opening's line on that many devices of one kind.
  std::string plan_line(const std::string& device_name, int64_t ranks) const {
    config::LoadResult loaded = config::read_run(GetParam(), {});
    config::compute_on_gpu(loaded);
    config::RunConfig& c = loaded.config;
    c.parallelism.data_parallel_shard_degree = ranks;
    const machine::Device* device = machine::find_device(device_name);
    if (device == nullptr) return device_name + " is not known";
    const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
    const plan::Precision precision = plan::precision(c);
    const plan::MemoryPlan memory =
        plan::memory_plan(c, shape, plan::parameter_plan(shape), precision, device->memory_bytes, 1, 0);
    const plan::Speed speed = plan::speed_of(*device, device->gemm_flops(precision.compute), ranks,
                                             plan::usual_efficiency(/*on_cpu=*/false, ranks));
    const plan::StepTime time = plan::step_time(c, shape, memory.recompute, c.training.steps, speed);
    const std::string times = fmt::format("{} a step, {}", format_duration(time.step_s), format_duration(time.run_s()));
    if (ranks > 1)
      return fmt::format("# {} {}s, planned (not run on them): {} each{}; {}, {:.1f} node-hours.\n", ranks, device_name,
                         format_bytes(memory.total_bytes), memory.fits() ? "" : ", too much", times, time.node_hours());
    return fmt::format("# One {} alone: {}{}{}, activations {}; {}.\n", device_name, format_bytes(memory.total_bytes),
                       memory.fits() ? " of its " : ", too much for its ", format_bytes(memory.limit_bytes),
                       format_bytes(memory.activations.total_bytes), times);
  }
  // Two sentences about the mesh that the seed ran on, as far as its files say, and the best one of a search on the
  // same devices; empty where it is not known. Lines of at most 118 columns.
  std::string mesh_lines() const {
    const auto found = std::ranges::find(kSeedMeshes, GetParam().stem().string(), &SeedMesh::recipe);
    if (found == std::end(kSeedMeshes)) return "";
    const SeedMesh& seed = *found;
    config::LoadResult loaded = config::read_run(GetParam(), {});
    config::compute_on_gpu(loaded);
    config::RunConfig& c = loaded.config;
    c.parallelism.data_parallel_replicate_degree = seed.replicate;
    c.parallelism.data_parallel_shard_degree = seed.shard;
    c.parallelism.tensor_parallel_degree = seed.tensor;
    c.parallelism.zero_stage = seed.stage;
    c.training.local_batch_size = seed.sequences;
    c.memory.recompute = seed.recompute;
    const plan::RunShape run = plan::run_shape(c, {});
    const machine::Device& device = *machine::find_device(seed.device);
    const plan::Speed speed = plan::speed_of(device, device.gemm_flops(run.precision.compute), c.parallelism.ranks(),
                                             plan::Speed::kGpusEfficiency);
    const plan::MemoryPlan memory = plan::memory_plan(c, run, device.memory_bytes);
    const plan::StepTime time = plan::step_time(c, run.model, memory.recompute, c.training.steps, speed);
    const plan::Layout best = plan::search_layouts(c, run, device.memory_bytes, c.training.steps, speed, 1).at(0);
    const auto layout = [&](const config::RunConfig& of, const plan::MemoryPlan& m, const plan::StepTime& t) {
      return fmt::format("{} with ZeRO-{} and {} sequence{} at once: {:.0f}, {} each{}",
                         plan::format_mesh(of.parallelism), of.parallelism.zero_stage, of.training.local_batch_size,
                         of.training.local_batch_size == 1 ? "" : "s",
                         t.tokens / t.step_s / static_cast<double>(speed.devices), format_bytes(m.total_bytes),
                         m.fits() ? "" : ", too much");
    };
    const std::string text = fmt::format(
        "Tokens per second of each of {} {}s, planned. The seed's mesh: {}. The best that `hearth plan --search` "
        "finds: {}.",
        speed.devices, device.name, layout(c, memory, time), layout(best.config, best.memory, best.time));
    std::string lines, line = "#";
    for (const std::string& word : split_words(text)) {
      if (line.size() + 1 + word.size() > 118) lines += std::exchange(line, "#") + "\n";
      line += " " + word;
    }
    return lines + line + "\n";
  }

  // The dataset number `i` of a run: of the kind its objective needs, unlike the others.
  std::string build(const config::RunConfig& c, size_t i) const {
    const std::string name = fmt::format("data{}", i);
    const bool is_new = !path_exists(scratch / name);
    if (c.objective.kind == config::ObjectiveKind::kSpikeLm) {
      if (is_new) train::build_tiny_spikes(scratch, name, neurons(), i + 1, tokenizer_name(), 0);
      return name;
    }
    if (is_new) train::build_tiny_data(scratch / name, 300 + static_cast<int64_t>(i));
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
  const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
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

TEST_P(Recipes, OpensWithItsPlan) {
  const std::string text = opening();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("\n# One (\\w+) alone: ")));
  const std::string device = found[1].str();
  const std::string one = plan_line(device, 1);
  EXPECT_THAT(text, HasSubstr(one)) << one;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("\n# ([0-9]+) " + device + "s, planned ")));
  const std::string many = plan_line(device, std::stoll(found[1].str()));
  EXPECT_THAT(text, HasSubstr(many)) << many;
  EXPECT_THAT(text, HasSubstr(mesh_lines())) << mesh_lines();
}

// In an empty folder the only error is the missing file: the command line itself is right.
TEST_P(Recipes, ItsCommandsAreTaken) {
  const std::string prefix = "#   hearth ";
  bool trains = false;
  for (const std::string& line : split_lines(opening())) {
    if (!line.starts_with(prefix)) continue;
    const std::string command = line.substr(prefix.size(), line.find("   (and so on)") - prefix.size());
    trains = trains || command == "train configs/" + GetParam().filename().string();
    const test::CommandResult result =
        test::run_command("cd " + scratch.path().string() + " && " + test::hearth_binary() + " " + command);
    EXPECT_EQ(result.exit_code, 2) << command << "\n" << result.output;
    EXPECT_TRUE(std::regex_search(
        result.output,
        std::regex("^error: (there is no (tokenizer |folder |runs/)|cannot (read|open) |nothing matches )")))
        << command << "\n"
        << result.output;
  }
  EXPECT_TRUE(trains);
}

// "--set key=value" of its variants, one line each.
TEST_P(Recipes, ItsVariantsAreTaken) {
  const std::regex set("--set ([^ ]+[^ .,;:])");
  for (const std::string& line : split_lines(opening())) {
    std::vector<std::string> sets;
    for (auto found = std::sregex_iterator(line.begin(), line.end(), set); found != std::sregex_iterator(); ++found)
      sets.push_back((*found)[1].str());
    const config::LoadResult loaded = config::read_run(GetParam(), sets);
    EXPECT_TRUE(loaded.problems.empty()) << line << "\n" << loaded.problems.front().what;
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
    train::train(before);
    c.checkpoint.initial_load_path = "before";
  }
  const auto records = train::train(c);
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
}  // namespace hearth::run
