// `hearth plan`: what a run takes, before it is started and without the machine: parameters, FLOPs, memory, time.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run_file.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/load.h"
#include "data/dataset.h"
#include "data/training_data.h"
#include "plan/device.h"
#include "plan/memory.h"
#include "plan/step_time.h"

namespace hearth::commands {
namespace {

struct Options {
  std::string device;  // empty: this machine's CPU, if that is what the run computes on
  double gemm_tflops = 0;
  double efficiency = plan::Speed{}.efficiency;
};

// Of matrix products in the type of the run.
struct Rate {
  double flops = 0;  // per second; 0: not known
  std::string_view source;
};

struct Planned {
  config::RunConfig config;
  plan::ModelShape shape;
  plan::ParameterPlan parameters;
  plan::Device device;
  plan::MemoryPlan memory;
  Rate rate;
};

bool on_cpu(const Options& options) { return options.device.empty() || options.device == "cpu"; }

plan::Device device_of(const Options& options) {
  if (on_cpu(options)) return plan::this_machine();
  const plan::Device* found = plan::find_device(options.device);
  if (found == nullptr)
    throw user_error(fmt::format("--device {} is not known", options.device), {},
                     fmt::format("give cpu, for this machine, or one of {}", plan::device_names()));
  return *found;
}

// This machine's is measured, by hearth-train.
Rate rate_of(const Options& options, const plan::Device& device, DType compute, int64_t threads) {
  if (options.gemm_tflops > 0) return {options.gemm_tflops * 1e12, "--gemm-tflops"};
  if (!on_cpu(options)) return {device.gemm_flops(compute), device.source};
  const std::string text = output_of_hearth_train(
      {"bench", "gemm", "--json", "--dtype", std::string(dtype_name(compute)), "--threads", std::to_string(threads)});
  const auto measured = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!measured.contains("gemm_flops")) return {};
  return {measured["gemm_flops"].get<double>(), "measured now"};
}

Planned planned(config::LoadResult& loaded, const Options& options) {
  const bool says_gpu = loaded.config.training.device != "cpu";
  if (!on_cpu(options)) config::compute_on_gpu(loaded);
  Planned p{loaded.config, {}, {}, {}, {}, {}};
  const auto sources = p.config.sources();
  // A run can be planned before its data is there, if it says how large the vocabulary will be.
  const bool has_data = !sources.empty() && (p.config.model.vocab_size == 0 ||
                                             path_exists(p.config.resolve(sources.front().path) / data::kManifestName));
  const int64_t vocab_size = has_data ? data::read_manifest(p.config.resolve(sources.front().path)).vocab_size : 0;
  p.shape = plan::model_shape(p.config, vocab_size);
  int64_t tokens = 0, counted = 0;
  for (const config::DataSource& source : sources) {
    const Path folder = p.config.resolve(source.path);
    if (!path_exists(folder / data::kManifestName)) continue;
    const data::Manifest manifest = data::read_manifest(folder);
    const data::SplitEntry* split = manifest.find_split("train");
    if (split == nullptr) continue;
    p.shape.sparse_labels = p.shape.sparse_labels || split->weights();
    tokens += split->tokens;
    counted += split->counted_tokens();
  }
  if (counted < tokens) p.shape.counted *= static_cast<double>(counted) / static_cast<double>(tokens);
  if (p.shape.V == 0)
    throw user_error("the vocabulary's size is not known", "neither data.path nor model.vocab_size is given",
                     "give one of them");
  p.parameters = plan::parameter_plan(p.shape);
  if (options.device.empty() && says_gpu)
    throw user_error(fmt::format("{} trains on a GPU, and which one is not known", loaded.file_name), {},
                     fmt::format("give --device, one of {}", plan::device_names()));
  // On a CPU all ranks are threads of one process; an accelerator has one.
  const int64_t ranks_here = on_cpu(options) ? p.config.parallelism.data_parallel_shard_degree : 1;
  const int64_t given_threads = p.config.training.threads;
  const int64_t threads = !on_cpu(options) ? 0 : given_threads > 0 ? given_threads : plan::available_cores();
  const plan::Precision precision = plan::precision(p.config);
  p.device = device_of(options);
  p.rate = rate_of(options, p.device, precision.compute, threads);
  p.memory = plan::memory_plan(p.config, p.shape, p.parameters, precision, p.device.memory_bytes, ranks_here, threads);
  return p;
}

// Optimizer steps of the whole run; 0 where its length is not given.
int64_t steps_of(const config::RunConfig& config) {
  const config::Training& t = config.training;
  if (t.steps == 0 && t.tokens == 0 && t.epochs == 0) return 0;
  return config::total_steps(config, t.epochs > 0 ? data::TrainingData(config).windows() : 0);
}

std::string time_text(const Planned& p, const Options& options) {
  if (p.rate.flops == 0) {
    const bool here = on_cpu(options);
    return fmt::format(
        "  step time    not known: {}\n               (give --gemm-tflops; `hearth bench gemm` measures it{})\n",
        here ? "hearth-train, which measures matrix products, cannot be run"
             : fmt::format("nobody measured {}'s matrix products in this type", p.device.name),
        here ? "" : " there");
  }
  const plan::Speed speed{.gemm_flops = p.rate.flops,
                          .devices = on_cpu(options) ? 1 : p.config.parallelism.data_parallel_shard_degree,
                          .per_node = p.device.per_node,
                          .efficiency = options.efficiency};
  return plan::format_step_time(plan::step_time(p.config, p.shape, p.memory, steps_of(p.config), speed));
}

std::string device_text(const Planned& p) {
  return fmt::format(
      "  device       {}: {}{}\n", p.device.name, format_bytes(p.device.memory_bytes),
      p.rate.flops > 0 ? fmt::format(", {}/s in matrix products ({})", format_flops(p.rate.flops), p.rate.source) : "");
}

}  // namespace

int plan(CommandLine& line) {
  Path toml;
  std::vector<std::string> sets;
  Options options;
  line.positional("RUN.toml", &toml, "the run file; its data need not be there if model.vocab_size is given");
  line.option("--set", "SECTION.KEY=VALUE", &sets, kSetHelp);
  line.option("--device", "NAME", &options.device,
              fmt::format("what it runs on: {}, or cpu, this machine", plan::device_names()));
  line.option("--gemm-tflops", "X", &options.gemm_tflops,
              "what its large matrix products reach, instead of what is known")
      .range(0, 1e6);
  line.option("--efficiency", "X", &options.efficiency, "the share of that rate which a step reaches").range(0.01, 1);
  if (!line.parse()) return 0;
  config::LoadResult loaded = config::read_run(toml, sets);
  config::check(loaded, config::Purpose::kPlan);
  config::throw_problems(loaded.file_name, loaded.problems);
  Planned p;
  config::with_places(loaded, [&] { p = planned(loaded, options); });
  fmt::print("  model        {} parameters ({})\n", format_count(static_cast<double>(p.parameters.num_parameters)),
             p.parameters.num_parameters);
  fmt::print("{}{}{}{}", plan::format_compute(p.shape, p.config.training.seq_len, p.memory.activations.recompute),
             device_text(p), plan::format_memory(p.memory), time_text(p, options));
  plan::require_fits(p.memory);
  return 0;
}

}  // namespace hearth::commands
