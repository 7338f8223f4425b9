// SPDX-License-Identifier: Apache-2.0
// `hearth plan`: parameters, FLOPs, memory and time of a run, before its start and without its machine.
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/run/planned.h"
#include "commands/run_file.h"
#include "config/check.h"
#include "config/load.h"
#include "machine/device.h"
#include "metrics/console.h"
#include "plan/layouts/search.h"
#include "plan/pipeline_plan.h"

namespace hearth::commands {
namespace {

std::string time_text(const Planned& p, const PlanOptions& options) {
  if (p.time) return plan::format_step_time(*p.time);
  const bool here = options.on_cpu();
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
  return fmt::format("  model        {}\n",
                     metrics::format_parameters(p.shape.parameters.num_parameters, p.shape.parameters.num_active)) +
         plan::format_compute(p.shape.model, p.config.training.seq_len, recompute) + device_text(p);
}

std::string plan_text(const Planned& p, const PlanOptions& options) {
  return model_text(p, p.memory.recompute) + plan::format_memory(p.memory) + plan::format_traffic(p.traffic) +
         plan::format_pipeline(plan::pipeline_plan(p.config, p.shape.model.L()), p.shape.model,
                               p.config.training.seq_len) +
         time_text(p, options);
}

struct Layouts {
  int64_t gpus = 0;
  std::vector<plan::Layout> best = {};
  std::string why_none = {};  // of a search that found none

  std::string devices(const Planned& p) const {
    return fmt::format("{} {}{}", gpus, p.device.name, gpus == 1 ? "" : "s");
  }
};

// The layouts for the given number of GPUs; of a run that does not fit them, for the first doubling that it does fit.
// Without a global batch, each GPU has training.local_batch_size sequences.
Layouts layouts_of(const Planned& p, const PlanOptions& options) {
  constexpr int64_t kMostGpus = 8192;
  Layouts layouts{options.gpus > 0 ? options.gpus : p.speed.devices};
  const int64_t count = !options.search ? 3 : options.limit > 0 ? options.limit : 10;
  while (true) {
    config::RunConfig config = p.config;
    const plan::Speed speed = speed_for(p, options, layouts.gpus);
    if (config.training.global_batch_size <= 0)
      config.training.global_batch_size = config.training.local_batch_size * speed.devices;
    layouts.best = plan::search_layouts(config, p.shape, p.device.memory_bytes, steps_of(config), speed, count);
    if (layouts.best.empty() && options.search)
      layouts.why_none = plan::why_no_layout(config, p.shape, p.device.memory_bytes, speed);
    if (!layouts.best.empty() || options.search || layouts.gpus * 2 > kMostGpus) return layouts;
    layouts.gpus *= 2;
  }
}

std::string layouts_text(const Planned& p, const Layouts& layouts) {
  if (layouts.best.empty()) return "";
  return fmt::format(
      "\nLayouts that fit {}, the fastest first, and of about equal ones the one that sends least:\n\n{}",
      layouts.devices(p), plan::format_layouts(layouts.best, p.shape.model));
}

using Json = nlohmann::ordered_json;

Json items_json(const std::vector<plan::MemoryItem>& items) {
  Json list = Json::array();
  for (const plan::MemoryItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return list;
}

Json parts_json(const plan::StepParts& parts) {
  return {{"compute", parts.compute}, {"tensor", parts.tensor}, {"context", parts.context}, {"experts", parts.experts},
          {"wait", parts.wait},       {"shard", parts.shard},   {"update", parts.update}};
}

Json layout_json(const plan::Layout& layout) {
  const config::Parallelism& p = layout.config.parallelism;
  return {{"local_batch_size", layout.config.training.local_batch_size},
          {"global_batch_size", layout.config.training.global_batch_size},
          {"data_parallel_replicate_degree", p.data_parallel_replicate_degree},
          {"data_parallel_shard_degree", p.data_parallel_shard_degree},
          {"zero_stage", p.zero_stage},
          {"reduce_once_per_step", p.reduce_once_per_step},
          {"context_parallel_degree", p.context_parallel_degree},
          {"tensor_parallel_degree", p.tensor_parallel_degree},
          {"pipeline_parallel_degree", p.pipeline_parallel_degree},
          {"expert_parallel_degree", p.expert_parallel_degree},
          {"pipeline_parallel_schedule", config::name_of(p.pipeline_parallel_schedule)},
          {"memory_bytes", layout.memory.total_bytes},
          {"recompute", plan::describe(layout.memory.recompute)},
          {"seconds", layout.time.step_s},
          {"tokens_per_second", layout.time.tokens / layout.time.step_s},
          {"bubble", layout.bubble},
          {"parts", parts_json(layout.time.parts)}};
}

// docs/plan.md describes the members. Unknown values are null.
Json plan_json(const Planned& p, const Layouts& layouts) {
  const int64_t S = p.config.training.seq_len;
  plan::ModelShape full = p.shape.model;
  full.causal = false;
  for (models::Layer& layer : full.layers) layer.window = 0;
  Json json;
  json["model"] = {{"parameters", p.shape.parameters.num_parameters},
                   {"active_parameters", p.shape.parameters.num_active}};
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
                    {"beside", items_json(p.memory.beside)},
                    {"recompute", plan::describe(p.memory.recompute)},
                    {"peak_op", p.memory.activations.peak_step},
                    {"activations", items_json(plan::peak_activations(p.memory))}};
  json["traffic"] = {{"shard_bytes", p.traffic.shard},     {"replicate_bytes", p.traffic.replicate},
                     {"tensor_bytes", p.traffic.tensor},   {"context_bytes", p.traffic.context},
                     {"experts_bytes", p.traffic.experts}, {"pipeline_bytes", p.traffic.pipeline}};
  json["pipeline_bubble"] =
      plan::pipeline_bubble(plan::pipeline_plan(p.config, p.shape.model.L()), p.shape.model, p.config.training.seq_len);
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

// The same of a search: its plan is that of the first layout, and not of the run file's own.
Json search_json(const Planned& p, const Layouts& layouts) {
  if (layouts.best.empty()) {
    Json json = plan_json(p, layouts);
    for (const char* member : {"memory", "traffic", "pipeline_bubble", "step", "run"}) json[member] = nullptr;
    json["compute"]["recomputed_flops_per_token"] = nullptr;
    return json;
  }
  const plan::Layout& first = layouts.best.front();
  Planned best = p;
  best.config = first.config;
  best.memory = first.memory;
  best.traffic = plan::run_traffic(best.config, p.shape.model, p.shape.precision, first.memory.recompute);
  best.time = first.time;
  return plan_json(best, layouts);
}

}  // namespace

int plan(CommandLine& line) {
  std::vector<Path> files;
  std::vector<std::string> sets;
  PlanOptions options;
  line.positional("RUN.toml", &files, "the run file; its data need not be there if model.vocab_size is given");
  line.option("--set SECTION.KEY=VALUE", &sets, kSetHelp);
  line.option("--device NAME", &options.device,
              fmt::format("the device: {}; cpu, this machine; or a cluster file", machine::device_names()));
  line.option("--gemm-tflops X", &options.gemm_tflops, within(0, 1e6),
              "TFLOP/s of its large matrix products, in place of the known rate");
  line.option(
      "--efficiency X", &options.efficiency, within(0.01, 1),
      fmt::format("the share of that rate which a step reaches; default: {} on a CPU, {} on one GPU, {} on several",
                  plan::Speed::kCpuEfficiency, plan::Speed::kOneGpuEfficiency, plan::Speed::kGpusEfficiency));
  line.option("--gpus N", &options.gpus, within(1, 1 << 20),
              "plan for N GPUs: parallelism.data_parallel_shard_degree is what the other degrees leave");
  line.flag("--search", &options.search, "list the layouts for these GPUs that fit, the fastest first");
  line.option("--limit K", &options.limit, within(1, 1000), "with --search: list K layouts; default: 10");
  line.flag("--compare", &options.compare, "two run files: both plans side by side, with * where they differ");
  line.flag("--json", &options.json, "print one JSON object: docs/plan.md describes its members");
  if (!line.parse()) return 0;
  if (files.size() != (options.compare ? 2 : 1))
    throw user_error(fmt::format("{} run files{}", files.size(), options.compare ? " for --compare" : ""), {},
                     options.compare ? "give two" : "give one, or --compare and two");
  if (options.compare && options.search)
    throw user_error("--compare does not go with --search", {}, "give one of them");
  find_plan_device(options);
  if (options.limit > 0 && !options.search) throw user_error("--limit is for --search", {}, "give both, or neither");
  if (options.gpus > 0 && options.on_cpu())
    throw user_error("--gpus needs a GPU", {}, fmt::format("give --device, one of {}", machine::device_names()));
  std::vector<Planned> plans;
  for (const Path& toml : files) {
    config::LoadResult loaded = config::read_run(toml, sets, options.search ? 0 : options.gpus);
    config::check(loaded, config::Purpose::kPlan);
    config::throw_problems(loaded.file_name, loaded.problems);
    config::with_places(loaded, [&] { plans.push_back(planned(loaded, options)); });
  }
  const Planned& p = plans.front();
  if (options.compare) {
    if (options.json)
      fmt::print("{}\n", Json::array({plan_json(p, {}), plan_json(plans.back(), {})}).dump(2));
    else
      fmt::print("{}{}", device_text(p), comparison_text(p, plans.back(), files[0].string(), files[1].string()));
    return 0;
  }
  if (options.search && (options.on_cpu() || !p.time)) {
    throw user_error("--search needs a GPU with a known rate", "layouts are compared by their times",
                     fmt::format("give --device, one of {}, or --gemm-tflops", machine::device_names()));
  }
  Layouts layouts;
  if (p.time && !options.on_cpu() && (options.search || !p.memory.fits())) layouts = layouts_of(p, options);
  if (options.json)
    fmt::print("{}\n", (options.search ? search_json(p, layouts) : plan_json(p, layouts)).dump(2));
  else
    fmt::print("{}{}", options.search ? model_text(p, {}) : plan_text(p, options), layouts_text(p, layouts));
  if (!options.search) plan::require_fits(p.memory);
  if (options.search && layouts.best.empty())
    throw user_error(
        fmt::format("no layout fits {}", layouts.devices(p)), layouts.why_none,
        "give more GPUs, another training.global_batch_size, a shorter training.seq_len or a smaller model");
  return 0;
}

}  // namespace hearth::commands
