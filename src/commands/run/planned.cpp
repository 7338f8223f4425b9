// SPDX-License-Identifier: Apache-2.0
#include "commands/run/planned.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/text.h"
#include "commands/hearth_train.h"
#include "config/check.h"
#include "config/derived.h"
#include "data/order/data_facts.h"
#include "data/order/training_data.h"

namespace hearth::commands {
namespace {

// What a cluster file says about memory, in bytes; 0: nothing. Slurm's units are those of 1024.
int64_t cluster_memory(const cluster::ClusterFile& file) {
  if (!file.device_memory.empty()) return parse_bytes(file.device_memory).value_or(0);
  if (file.gpus_per_node > 0 || file.memory_per_node.empty()) return 0;
  std::string text = file.memory_per_node;  // "64G", "64g" and "64GB" are the same
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  if (text.ends_with('B')) text.pop_back();
  const char unit = text.empty() ? '\0' : text.back();
  if (unit == 'K' || unit == 'M' || unit == 'G' || unit == 'T') return parse_bytes(text + "iB").value_or(0);
  return parse_bytes(text + "MiB").value_or(0);  // Slurm counts megabytes where there is no unit
}

machine::Device cluster_device(const cluster::ClusterFile& file) {
  const int64_t memory = cluster_memory(file);
  if (file.gpus_per_node == 0) {
    machine::Device cpu = machine::this_machine();
    if (file.scheduler == "none" && memory == 0) return cpu;
    cpu.name = file.name;
    cpu.memory_bytes = memory;
    return cpu;
  }
  const machine::Device* known = machine::find_device(file.device_name);
  machine::Device device = known == nullptr ? machine::Device{} : *known;
  if (known == nullptr) device.name = file.device_name;
  if (memory > 0) device.memory_bytes = memory;
  device.per_node = file.gpus_per_node;
  return device;
}

// This machine's rate is measured by hearth-train.
PlanRate rate_of(const PlanOptions& options, const machine::Device& device, DType compute, int64_t threads) {
  if (options.gemm_tflops > 0) return {options.gemm_tflops * 1e12, "--gemm-tflops"};
  if (options.cluster && options.cluster->gemm_tflops > 0) {
    const double ranks = options.on_cpu() ? static_cast<double>(options.cluster->ranks_per_node) : 1;
    return {options.cluster->gemm_tflops * 1e12 * ranks,
            fmt::format("preflight.gemm_tflops of {}", options.cluster->name)};
  }
  if (!options.on_cpu()) return {device.gemm_flops(compute), std::string(device.source)};
  const std::string text = output_of_hearth_train(
      {"bench", "gemm", "--json", "--dtype", std::string(dtype_name(compute)), "--threads", std::to_string(threads)});
  const auto measured = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!measured.contains("gemm_flops")) return {};
  return {measured["gemm_flops"].get<double>(), options.cluster ? "measured now, on this machine" : "measured now"};
}

}  // namespace

bool PlanOptions::on_cpu() const {
  if (cluster) return cluster->gpus_per_node == 0;
  return device.empty() || machine::names_this_machine(device);
}

void find_plan_device(PlanOptions& options) {
  const std::string& name = options.device;
  if (name.empty() || machine::names_this_machine(name) || machine::find_device(name) != nullptr) return;
  const std::vector<std::string> shipped = cluster::shipped_clusters();
  const bool is_file = name.ends_with(".toml") || name.find('/') != std::string::npos;
  if (!is_file && std::find(shipped.begin(), shipped.end(), name) == shipped.end()) {
    const std::string meant = machine::nearest_device(name);
    throw user_error(fmt::format("--device {} is not known", name),
                     meant.empty() ? "" : fmt::format("did you mean {}?", meant),
                     fmt::format("give cpu, for this machine, one of {}, or a cluster file{}", machine::device_names(),
                                 shipped.empty() ? "" : fmt::format(" ({})", join(shipped, ", "))));
  }
  options.cluster = cluster::find_cluster_file(name);
  const cluster::ClusterFile& file = *options.cluster;
  const machine::Device device = cluster_device(file);
  if (file.gpus_per_node > 0 && device.memory_bytes == 0)
    throw user_error(
        fmt::format("{} does not say which GPUs the cluster has", file.name),
        file.device_name.empty() ? "" : fmt::format("\"{}\" is no device that Hearth knows", file.device_name),
        fmt::format("give device.name in it, one of {}, or device.memory", machine::device_names()));
  if (file.gpus_per_node == 0 && device.memory_bytes == 0)
    throw user_error(fmt::format("{} does not say how much memory a node has", file.name), "",
                     "give device.memory in it, or job.memory_per_node");
}

Planned planned(config::LoadResult& loaded, const PlanOptions& options) {
  const bool says_gpu = loaded.config.training.device != config::DeviceKind::kCpu;
  if (!options.on_cpu()) config::compute_on_gpu(loaded);
  if (options.on_cpu() && !options.device.empty()) loaded.config.training.device = config::DeviceKind::kCpu;
  Planned p{.config = loaded.config};
  p.shape = plan::run_shape(p.config, data::data_facts(p.config));
  if (options.device.empty() && says_gpu)
    throw user_error(fmt::format("{} trains on a GPU of unknown type", loaded.file_name), {},
                     fmt::format("give --device, one of {}", machine::device_names()));
  p.device = options.cluster    ? cluster_device(*options.cluster)
             : options.on_cpu() ? machine::this_machine()
                                : *machine::find_device(options.device);
  p.rate = rate_of(options, p.device, p.shape.precision.compute, config::cpu_threads(p.config));
  p.memory = plan::memory_plan(p.config, p.shape, p.device.memory_bytes);
  p.traffic = plan::run_traffic(p.config, p.shape.model, p.shape.precision, p.memory.recompute);
  if (p.rate.flops == 0) return p;
  const int64_t devices = options.on_cpu() ? 1 : p.config.parallelism.ranks();
  p.speed = speed_for(p, options, devices);
  p.time = plan::step_time(p.config, p.shape.model, p.memory.recompute, steps_of(p.config), p.speed);
  return p;
}

int64_t steps_of(const config::RunConfig& config) {
  const config::Training& t = config.training;
  if (t.steps == 0 && t.tokens == 0 && t.epochs == 0) return 0;
  return config::total_steps(config, t.epochs > 0 ? data::TrainingData(config).windows() : 0);
}

plan::Speed speed_for(const Planned& planned, const PlanOptions& options, int64_t devices) {
  return plan::speed_of(
      planned.device, planned.rate.flops, devices,
      options.efficiency > 0 ? options.efficiency : plan::usual_efficiency(options.on_cpu(), devices));
}

}  // namespace hearth::commands
