// SPDX-License-Identifier: Apache-2.0
#include "bench/preflight.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <span>

#include "base/log.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/text.h"
#include "bench/gpu_health.h"
#include "bench/node_checks.h"
#include "config/load.h"
#include "hub/process.h"
#include "machine/cores.h"
#include "machine/device.h"
#include "metrics/throughput.h"
#include "ops/gpu/gpu.h"
#include "ops/runtime.h"
#include "ops/tensor.h"
#include "run/compute_device.h"
#include "train/trainer.h"

namespace hearth::bench {
namespace {

using metrics::monotonic_seconds;

constexpr int64_t kFileBytes = int64_t{64} << 20;
constexpr int64_t kTensorBytes = int64_t{64} << 20;
constexpr int kRepeats = 5;

// As Slurm calls the host, where it started this process: its lists of nodes need that name.
std::string name_of_host() {
  if (const char* node = std::getenv("SLURMD_NODENAME"); node != nullptr && *node != '\0') return node;
  return host_name();
}

std::string versions_text() {
  utsname system{};
  ::uname(&system);
  return fmt::format("Hearth {}, LibTorch {}, {} {}", version_text(), HEARTH_LIBTORCH_VERSION, system.sysname,
                     system.release);
}

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Writes a file of its own in `folder`, brings it to the disk, and compares what is read back.
void check_files(const Path& folder, RankFacts& facts) {
  const Path path = folder / fmt::format(".preflight-{}-{}", facts.host, ::getpid());
  try {
    std::vector<std::byte> block(size_t{1} << 20), back(block.size());
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
    double start_s = monotonic_seconds();
    File file = File::create(path);
    for (int64_t at = 0; at < kFileBytes; at += std::ssize(block)) file.write(block);
    file.sync();
    facts.write_bytes_s = static_cast<double>(kFileBytes) / (monotonic_seconds() - start_s);
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);  // the disk is asked, where there is one
    file.close();
    start_s = monotonic_seconds();
    const File reader = File::open_read(path);
    for (int64_t at = 0; at < kFileBytes && facts.file_error.empty(); at += std::ssize(block)) {
      reader.read_at(at, back);
      if (back != block) facts.file_error = fmt::format("{} has other bytes than were written", path.string());
    }
    facts.read_bytes_s = static_cast<double>(kFileBytes) / (monotonic_seconds() - start_s);
  } catch (const Error& error) {
    facts.file_error = error.message() + (error.why().empty() ? "" : ": " + error.why());
  }
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

// Uncorrected errors of the host's memory that the node has counted. -1: the system does not say.
int64_t host_memory_errors() {
  int64_t sum = -1;
  for (int controller = 0; controller < 64; ++controller) {
    std::ifstream file(fmt::format("/sys/devices/system/edac/mc/mc{}/ue_count", controller));
    if (int64_t count = 0; file >> count) sum = std::max<int64_t>(sum, 0) + count;
  }
  return sum;
}

bool is_mapped(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

// Prints rows as they come, and keeps them.
class Table {
 public:
  Table(bool speaks, bool json) : speaks_(speaks && !json), json_(speaks && json) {}
  void add(const std::vector<CheckRow>& rows) {
    for (const CheckRow& row : rows) {
      if (speaks_) fmt::print("{}", row_text(row));
      rows_.push_back(row);
    }
    std::fflush(stdout);
  }
  bool is_fine() const {
    return std::none_of(rows_.begin(), rows_.end(),
                        [](const CheckRow& row) { return row.outcome == CheckRow::Outcome::kOff; });
  }
  std::vector<std::string> bad_nodes() const { return bench::bad_nodes(rows_); }
  // Prints the end.
  void finish() const {
    const std::vector<std::string> bad = bad_nodes();
    if (json_) {
      nlohmann::ordered_json object = {
          {"fine", is_fine()}, {"bad_nodes", bad}, {"checks", nlohmann::ordered_json::array()}};
      for (const CheckRow& row : rows_)
        object["checks"].push_back(
            {{"name", row.name}, {"outcome", name_of(row.outcome)}, {"text", row.text}, {"nodes", row.bad_nodes}});
      fmt::print("{}\n", object.dump());
    }
    if (speaks_ && !bad.empty())
      log_error("error: {} off: {}\n  fix: leave them out: hearth submit --exclude {}",
                bad.size() == 1 ? "a node is" : "nodes are", join(bad), join(bad, ","));
  }

 private:
  bool speaks_, json_;
  std::vector<CheckRow> rows_;
};

// The facts of all ranks; empty on others than rank 0.
std::vector<RankFacts> facts_of_all(comm::Control& control, const RankFacts& mine) {
  std::vector<RankFacts> all;
  for (const std::string& text : control.gather("the facts", facts_text(mine))) all.push_back(facts_of_text(text));
  return all;
}

// Threads of this rank on a CPU: ranks of a host that may use the same cores share them.
int64_t own_threads(comm::Control& control, const std::string& host) {
  const std::string mine = host + " " + machine::core_list();
  int64_t sharing = 0;
  for (const std::string& other : control.all_gather("the cores", mine)) sharing += other == mine ? 1 : 0;
  return std::max<int64_t>(1, machine::available_cores() / std::max<int64_t>(sharing, 1));
}

RankFacts measure_rank(comm::Control& control, const Path& folder, at::Device device, DType dtype) {
  const comm::LocalPlace local = comm::local_place(control);
  RankFacts facts{.rank = control.rank(),
                  .host = name_of_host(),
                  .first_of_host = local.rank == 0,
                  .versions = versions_text(),
                  .device = {},
                  .memory_bytes = run::available_memory(device),
                  .file_error = {}};
  facts.device = device.is_cpu() ? fmt::format("CPU, {} cores", machine::available_cores()) : ops::open_gpu().name;
  control.barrier("the clocks");
  facts.clock_s = time_of_day();
  // The driver is asked while all multiply: idle GPUs lower their clocks.
  const bool asks = facts.first_of_host && !device.is_cpu();
  std::future<GpuHealth> health =
      std::async(std::launch::async, [asks] { return asks ? read_gpu_health() : GpuHealth{}; });
  std::array<double, 3> rates{};  // the best counts: other work only takes time
  for (double& rate : rates) {    // all at once: devices of a node share its power
    control.barrier("matrix products");
    rate = ops::measure_gemm_flops(device, dtype);
  }
  std::sort(rates.begin(), rates.end());
  facts.gemm_flops = rates.back();
  if (facts.first_of_host) {
    check_files(folder, facts);
    facts.gpus = health.get();
    facts.memory_errors = device.is_cpu() ? host_memory_errors() : facts.gpus.memory_errors;
  }
  return facts;
}

// The rate at which an all_gather over all ranks brings bytes into this one.
double received_bytes_s(comm::Group& group, at::Device device) {
  const int64_t R = group.size(), n = kTensorBytes / 4 / R;
  const at::Tensor full = ops::zeros({R * n}, DType::kFloat32, device);
  const at::Tensor shard = full.narrow(0, group.rank() * n, n);
  std::array<double, kRepeats> seconds{};
  for (int i = -1; i < kRepeats; ++i) {  // one to warm up
    group.control().barrier("an exchange");
    const double start_s = monotonic_seconds();
    group.all_gather(full, shard);
    ops::synchronize(device);
    if (i >= 0) seconds[static_cast<size_t>(i)] = monotonic_seconds() - start_s;
  }
  std::sort(seconds.begin(), seconds.end());
  return static_cast<double>((R - 1) * n * 4) / seconds[kRepeats / 2];
}

// While it lives, what this process prints goes to stderr: stdout is the table's.
class StdoutAside {
 public:
  StdoutAside() {
    std::fflush(stdout);
    saved_ = ::dup(STDOUT_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StdoutAside() {
    std::fflush(stdout);
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }
  StdoutAside(const StdoutAside&) = delete;
  StdoutAside& operator=(const StdoutAside&) = delete;

 private:
  int saved_;
};

// The run file, for some steps in a folder of its own.
config::LoadResult short_run(config::LoadResult loaded, const Path& folder, int64_t steps) {
  config::RunConfig& c = loaded.config;
  c.job.dump_folder = folder.string();
  c.checkpoint.folder = "checkpoints";
  c.training.steps = steps;
  c.training.tokens = 0;
  c.training.epochs = 0;
  c.lr_scheduler.warmup_steps = std::min(c.lr_scheduler.warmup_steps, steps);
  c.validation.freq = 0;
  c.validation.set.clear();
  c.validation.generate.clear();
  c.profiling = {};
  c.checkpoint.interval = 0;
  c.checkpoint.interval_seconds = 0;
  c.checkpoint.interval_epochs = 0;
  c.checkpoint.extra_steps.clear();
  c.checkpoint.last_save_in_hf = false;
  return loaded;
}

CheckRow steps_row(const config::LoadResult& loaded, const Path& folder, const config::PreflightOptions& options,
                   comm::Group& group) {
  const Path own = folder / ".preflight";
  group.control().together("an earlier preflight", [&] {
    if (group.rank() == 0) remove_tree(own);
  });
  const double start_s = monotonic_seconds();
  const config::TrainOptions train{.run_toml = options.run_toml, .sets = {}, .is_trial = true};
  const StdoutAside aside;
  train::run_training(short_run(loaded, own, options.steps), train, group);
  const double seconds = monotonic_seconds() - start_s;
  if (group.rank() == 0) remove_tree(own);
  return {.name = "steps",
          .text = fmt::format("{} of the run with its layout, start and save, in {}", options.steps,
                              format_duration(seconds))};
}

}  // namespace

PreflightResult run_preflight(const config::PreflightOptions& options, const config::LoadResult& loaded,
                              comm::Control& control, const comm::MakeGroup& make_group) {
  const bool has_run = !options.run_toml.empty();
  control.together("the run file's problems", [&] {
    if (has_run) config::throw_problems(loaded.file_name, loaded.problems);
  });
  const std::string host = name_of_host();
  Path folder = options.folder;
  if (folder.empty()) folder = has_run ? absolute_path(loaded.config.run_folder()) : Path(".");
  control.together("the folder", [&] {
    if (control.rank() == 0) make_folders(folder);
  });
  const bool gpu = has_run ? loaded.config.training.device == config::DeviceKind::kCuda : ops::why_no_gpu().empty();
  const at::Device device = run::open_rank_device(control, gpu ? "cuda" : "cpu");
  const DType dtype = has_run           ? loaded.config.training.mixed_precision_param
                      : device.is_cpu() ? DType::kFloat32
                                        : DType::kBFloat16;
  ops::prepare_thread(own_threads(control, host));

  const bool speaks = control.rank() == 0;
  Table table(speaks, options.json);
  const NodeLimits limits{.least_share = options.least_share,
                          .gemm_flops = options.gemm_flops,
                          .fabric_library = options.fabric_library,
                          .fabric_bytes_s = options.fabric_bytes_s};
  RankFacts facts = measure_rank(control, folder, device, dtype);
  if (const std::vector<RankFacts> all = facts_of_all(control, facts); speaks) table.add(judge_nodes(all, limits));
  const auto all_fine = [&] { return control.broadcast("the nodes", table.is_fine() ? "fine" : "off") == "fine"; };
  if (!all_fine()) {  // an exchange with such nodes may hang
    table.add({{"exchanges", CheckRow::Outcome::kNotChecked, "not with nodes that are off"}});
    table.finish();
    return {ExitCode::kHardware, table.bad_nodes()};
  }
  const auto group = make_group(loaded.config.comm, comm::transfers_of(loaded.config, device));
  if (control.size() > 1) facts.received_bytes_s = received_bytes_s(*group, device);
  facts.plugin_loaded = !limits.fabric_library.empty() && is_mapped(limits.fabric_library);
  if (const std::vector<RankFacts> all = facts_of_all(control, facts); speaks) table.add(judge_fabric(all, limits));

  if (has_run && options.steps > 0) table.add({steps_row(loaded, folder, options, *group)});
  if (!has_run) table.add({{"steps", CheckRow::Outcome::kNotChecked, "no run file was given"}});
  table.finish();
  return {all_fine() ? ExitCode::kDone : ExitCode::kHardware, table.bad_nodes()};
}

}  // namespace hearth::bench
