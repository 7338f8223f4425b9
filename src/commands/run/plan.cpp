// `hearth plan`: parameters, FLOPs, memory and time of a run, before its start and without its machine.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quantity.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run_file.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/load.h"
#include "data/order/data_facts.h"
#include "data/order/training_data.h"
#include "machine/device.h"
#include "mesh/mesh.h"
#include "plan/layouts/search.h"
#include "plan/pipeline_plan.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"
#include "plan/traffic.h"

namespace hearth::commands {
namespace {

struct Options {
  std::string device;  // empty: this machine's CPU, if the run computes on a CPU
  int64_t gpus = 0;    // 0: as the run file says
  double gemm_tflops = 0;
  double efficiency = 0;  // 0: the device's usual one
  bool search = false, json = false;
  int64_t limit = 0;  // layouts to list; 0: 10
};

// The rate of matrix products in the run's type.
struct Rate {
  double flops = 0;  // per second; 0: not known
  std::string_view source;
};

struct Planned {
  config::RunConfig config;
  plan::RunShape shape = {};
  machine::Device device = {};
  plan::MemoryPlan memory = {};
  plan::StepTraffic traffic = {};
  Rate rate = {};
  plan::Speed speed = {};
  std::optional<plan::StepTime> time = {};  // empty if the rate is not known
};

bool on_cpu(const Options& options) { return options.device.empty() || machine::names_this_machine(options.device); }

machine::Device device_of(const Options& options) {
  if (on_cpu(options)) return machine::this_machine();
  const machine::Device* found = machine::find_device(options.device);
  if (found != nullptr) return *found;
  const std::string meant = machine::nearest_device(options.device);
  throw user_error(fmt::format("--device {} is not known", options.device),
                   meant.empty() ? "" : fmt::format("did you mean {}?", meant),
                   fmt::format("give cpu, for this machine, or one of {}", machine::device_names()));
}

// This machine's rate is measured by hearth-train.
Rate rate_of(const Options& options, const machine::Device& device, DType compute, int64_t threads) {
  if (options.gemm_tflops > 0) return {options.gemm_tflops * 1e12, "--gemm-tflops"};
  if (!on_cpu(options)) return {device.gemm_flops(compute), device.source};
  const std::string text = output_of_hearth_train(
      {"bench", "gemm", "--json", "--dtype", std::string(dtype_name(compute)), "--threads", std::to_string(threads)});
  const auto measured = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!measured.contains("gemm_flops")) return {};
  return {measured["gemm_flops"].get<double>(), "measured now"};
}

// Optimizer steps of the whole run; 0 if its length is not given.
int64_t steps_of(const config::RunConfig& config) {
  const config::Training& t = config.training;
  if (t.steps == 0 && t.tokens == 0 && t.epochs == 0) return 0;
  return config::total_steps(config, t.epochs > 0 ? data::TrainingData(config).windows() : 0);
}

Planned planned(config::LoadResult& loaded, const Options& options) {
  const bool says_gpu = loaded.config.training.device != config::DeviceKind::kCpu;
  if (!on_cpu(options)) config::compute_on_gpu(loaded);
  if (on_cpu(options) && !options.device.empty()) loaded.config.training.device = config::DeviceKind::kCpu;
  Planned p{.config = loaded.config};
  p.shape = plan::run_shape(p.config, data::data_facts(p.config));
  if (options.device.empty() && says_gpu)
    throw user_error(fmt::format("{} trains on a GPU of unknown type", loaded.file_name), {},
                     fmt::format("give --device, one of {}", machine::device_names()));
  p.device = device_of(options);
  p.rate = rate_of(options, p.device, p.shape.precision.compute, config::cpu_threads(p.config));
  p.memory = plan::memory_plan(p.config, p.shape, p.device.memory_bytes);
  p.traffic = plan::run_traffic(p.config, p.shape.model, p.shape.precision, p.memory.recompute);
  if (p.rate.flops == 0) return p;
  const double usual = on_cpu(options) ? plan::Speed{}.efficiency : plan::Speed::kGpuEfficiency;
  p.speed = plan::speed_of(p.device, p.rate.flops, on_cpu(options) ? 1 : p.config.parallelism.ranks(),
                           options.efficiency > 0 ? options.efficiency : usual);
  p.time = plan::step_time(p.config, p.shape.model, p.memory.recompute, steps_of(p.config), p.speed);
  return p;
}

std::string time_text(const Planned& p, const Options& options) {
  if (p.time) return plan::format_step_time(*p.time);
  const bool here = on_cpu(options);
  return fmt::format(
      "  step time    not known: {}\n               (give --gemm-tflops; `hearth bench gemm` measures it{})\n",
      here ? "hearth-train, which measures matrix products, cannot be run"
           : fmt::format("there is no measurement of {}'s matrix products in this type", p.device.name),
      here ? "" : " there");
}

std::string device_text(const Planned& p) {
  return fmt::format(
      "  device       {}: {}{}\n", p.device.name, format_bytes(p.device.memory_bytes),
      p.rate.flops > 0 ? fmt::format(", {}/s in matrix products ({})", format_flops(p.rate.flops), p.rate.source) : "");
}

std::string model_text(const Planned& p, std::span<const plan::Recompute> recompute) {
  return fmt::format("  model        {} parameters ({})\n",
                     format_count(static_cast<double>(p.shape.parameters.num_parameters)),
                     p.shape.parameters.num_parameters) +
         plan::format_compute(p.shape.model, p.config.training.seq_len, recompute) + device_text(p);
}

std::string plan_text(const Planned& p, const Options& options) {
  return model_text(p, p.memory.recompute) + plan::format_memory(p.memory) + plan::format_traffic(p.traffic) +
         plan::format_pipeline(plan::pipeline_plan(p.config, p.shape.model.L), p.shape.model) + time_text(p, options);
}

struct Layouts {
  int64_t gpus = 0;
  std::vector<plan::Layout> best = {};
};

// The layouts for the given number of GPUs; of a run that does not fit them, for the first doubling that it does fit.
// Without a global batch, each GPU has training.local_batch_size sequences.
Layouts layouts_of(const Planned& p, const Options& options) {
  constexpr int64_t kMostGpus = 8192;
  Layouts layouts{options.gpus > 0 ? options.gpus : p.speed.devices};
  while (true) {
    config::RunConfig config = p.config;
    plan::Speed speed = p.speed;
    speed.devices = layouts.gpus;
    if (config.training.global_batch_size <= 0)
      config.training.global_batch_size = config.training.local_batch_size * speed.devices;
    layouts.best = plan::search_layouts(config, p.shape, p.device.memory_bytes, p.time->steps, speed,
                                        !options.search     ? 3
                                        : options.limit > 0 ? options.limit
                                                            : 10);
    if (!layouts.best.empty() || options.search || layouts.gpus * 2 > kMostGpus) return layouts;
    layouts.gpus *= 2;
  }
}

std::string layouts_text(const Planned& p, const Layouts& layouts) {
  if (layouts.gpus == 0) return "";
  const std::string devices = fmt::format("{} {}{}", layouts.gpus, p.device.name, layouts.gpus == 1 ? "" : "s");
  if (layouts.best.empty()) return fmt::format("\nNo layout fits {}.\n", devices);
  return fmt::format("\nLayouts that fit {}, the fastest first:\n\n{}", devices,
                     plan::format_layouts(layouts.best, p.shape.model));
}

using Json = nlohmann::ordered_json;

Json items_json(const std::vector<plan::MemoryItem>& items) {
  Json list = Json::array();
  for (const plan::MemoryItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return list;
}

Json parts_json(const plan::StepParts& parts) {
  return {{"compute", parts.compute}, {"tensor", parts.tensor}, {"context", parts.context},
          {"wait", parts.wait},       {"shard", parts.shard},   {"update", parts.update}};
}

Json layout_json(const plan::Layout& layout) {
  const config::Parallelism& p = layout.config.parallelism;
  Json json = {{"local_batch_size", layout.config.training.local_batch_size},
               {"data_parallel_replicate_degree", p.data_parallel_replicate_degree},
               {"data_parallel_shard_degree", p.data_parallel_shard_degree},
               {"zero_stage", p.zero_stage},
               {"reduce_once_per_step", p.reduce_once_per_step},
               {"context_parallel_degree", p.context_parallel_degree},
               {"tensor_parallel_degree", p.tensor_parallel_degree},
               {"pipeline_parallel_degree", p.pipeline_parallel_degree},
               {"pipeline_parallel_schedule", config::name_of(p.pipeline_parallel_schedule)},
               {"memory_bytes", layout.memory.total_bytes},
               {"recompute", plan::describe(layout.memory.recompute)},
               {"seconds", layout.time.step_s},
               {"tokens_per_second", layout.time.tokens / layout.time.step_s},
               {"bubble", layout.bubble}};
  json["parts"] = parts_json(layout.time.parts);
  return json;
}

// docs/plan.md describes the members. Unknown values are null.
Json plan_json(const Planned& p, const Layouts& layouts) {
  const int64_t S = p.config.training.seq_len;
  plan::ModelShape full = p.shape.model;
  full.causal = false;
  Json json;
  json["model"] = {{"parameters", p.shape.parameters.num_parameters}};
  json["compute"] = {
      {"flops_per_token", plan::flops_per_token(p.shape.model, S)},
      {"flops_per_token_full_attention", plan::flops_per_token(full, S)},
      {"computed_flops_per_token", plan::computed_flops_per_token(p.shape.model, S)},
      {"recomputed_flops_per_token", plan::recompute_flops_per_token(p.shape.model, S, p.memory.recompute)}};
  json["device"] = {{"name", p.device.name}, {"memory_bytes", p.device.memory_bytes}, {"gemm_flops", nullptr}};
  json["memory"] = {{"fits", p.memory.fits()},
                    {"limit_bytes", p.memory.limit_bytes},
                    {"ranks", p.memory.ranks_here},
                    {"total_bytes", p.memory.total_bytes},
                    {"items", items_json(plan::memory_items(p.memory))},
                    {"recompute", plan::describe(p.memory.recompute)},
                    {"peak_op", p.memory.activations.peak_op},
                    {"activations", items_json(plan::peak_activations(p.memory))}};
  json["traffic"] = {{"shard_bytes", p.traffic.shard},
                     {"replicate_bytes", p.traffic.replicate},
                     {"tensor_bytes", p.traffic.tensor},
                     {"context_bytes", p.traffic.context},
                     {"pipeline_bytes", p.traffic.pipeline}};
  json["pipeline_bubble"] = plan::pipeline_bubble(plan::pipeline_plan(p.config, p.shape.model.L), p.shape.model);
  json["step"] = json["run"] = nullptr;
  json["layouts"] = Json::array();
  if (!p.time) return json;
  for (const plan::Layout& layout : layouts.best) json["layouts"].push_back(layout_json(layout));
  const plan::StepTime& t = *p.time;
  const auto steps = static_cast<double>(t.steps);
  json["device"]["gemm_flops"] = p.rate.flops;
  json["step"] = {{"tokens", t.tokens},
                  {"seconds", t.step_s},
                  {"tokens_per_second", t.tokens / t.step_s},
                  {"efficiency", t.speed.efficiency},
                  {"parts", parts_json(t.parts)}};
  if (t.steps > 0)
    json["run"] = {{"steps", t.steps},
                   {"tokens", t.tokens * steps},
                   {"seconds", t.run_s()},
                   {"devices", t.speed.devices},
                   {"nodes", t.nodes()},
                   {"device_hours", t.device_hours()},
                   {"node_hours", t.node_hours()}};
  return json;
}

}  // namespace

int plan(CommandLine& line) {
  Path toml;
  std::vector<std::string> sets;
  Options options;
  line.positional("RUN.toml", &toml, "the run file; its data need not be there if model.vocab_size is given");
  line.option("--set", "SECTION.KEY=VALUE", &sets, kSetHelp);
  line.option("--device", "NAME", &options.device,
              fmt::format("the device: {}, or cpu, this machine", machine::device_names()));
  line.option("--gemm-tflops", "X", &options.gemm_tflops,
              "TFLOP/s of its large matrix products, in place of the known rate")
      .range(0, 1e6);
  line.option("--efficiency", "X", &options.efficiency,
              fmt::format("the share of that rate which a step reaches; default: {} on a CPU, {} on GPUs",
                          plan::Speed{}.efficiency, plan::Speed::kGpuEfficiency))
      .range(0.01, 1);
  line.option("--gpus", "N", &options.gpus,
              "plan for N GPUs: parallelism.data_parallel_shard_degree is what the other degrees leave")
      .range(1, 1 << 20);
  line.flag("--search", &options.search, "list the layouts for these GPUs that fit, the fastest first");
  line.option("--limit", "K", &options.limit, "with --search: list K layouts; default: 10").range(1, 1000);
  line.flag("--json", &options.json, "print one JSON object: docs/plan.md describes its members");
  if (!line.parse()) return 0;
  if (options.limit > 0 && !options.search) throw user_error("--limit is for --search", {}, "give both, or neither");
  if (options.gpus > 0 && on_cpu(options))
    throw user_error("--gpus needs a GPU", {}, fmt::format("give --device, one of {}", machine::device_names()));
  config::LoadResult loaded = config::read_run(toml, sets, options.search ? 0 : options.gpus);
  config::check(loaded, config::Purpose::kPlan);
  config::throw_problems(loaded.file_name, loaded.problems);
  Planned p;
  config::with_places(loaded, [&] { p = planned(loaded, options); });
  if (options.search && (on_cpu(options) || !p.time)) {
    throw user_error("--search needs a GPU with a known rate", "layouts are compared by their times",
                     fmt::format("give --device, one of {}, or --gemm-tflops", machine::device_names()));
  }
  Layouts layouts;
  if (p.time && !on_cpu(options) && (options.search || !p.memory.fits())) layouts = layouts_of(p, options);
  if (options.json) {
    fmt::print("{}\n", plan_json(p, layouts).dump(2));
  } else {
    fmt::print("{}{}", options.search ? model_text(p, {}) : plan_text(p, options), layouts_text(p, layouts));
  }
  if (!options.search) plan::require_fits(p.memory);
  return 0;
}

}  // namespace hearth::commands
