// SPDX-License-Identifier: Apache-2.0
#include "launch/launched_rank.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::launch {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

// The names of a launcher's variables.
struct Variables {
  const char* launcher;
  const char *rank, *size, *local_size;
};

constexpr Variables kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"};
constexpr Variables kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kMpich{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"};
constexpr Variables kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr};

int64_t number(const Environment& environment, const char* name, int64_t least, int64_t most) {
  const std::string text = environment(name).value_or("");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw user_error(fmt::format("the environment variable {} is \"{}\"", name, text),
                     fmt::format("a launcher sets it to a number from {} to {}", least, most),
                     "start the ranks with srun, mpirun, torchrun or --ranks, or remove the variable");
  return value;
}

bool has(const Environment& environment, const char* name) { return environment(name).has_value(); }

// SLURM_STEP_NODELIST = "node[03-05,7],login1": "node03".
std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// The line "NAME: VALUE" of /proc/PROCESS/status.
std::string status_of(pid_t process, std::string_view name) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name) && line[name.size()] == ':')
      return line.substr(line.find_first_not_of(" \t", name.size() + 1));
  return {};
}

// The process of a launcher that all ranks of this host descend from: scripts may stand between. Without one that is
// known by its name it is the parent.
pid_t launcher_process() {
  constexpr std::array<std::string_view, 8> kNames = {"hydra_pmi_proxy", "mpiexec.hydra", "mpirun", "mpiexec",
                                                      "orted",           "orterun",       "prted",  "prterun"};
  for (pid_t process = ::getppid(); process > 1; process = std::atoi(status_of(process, "PPid").c_str()))
    if (std::ranges::find(kNames, status_of(process, "Name")) != kNames.end()) return process;
  return ::getppid();
}

// Equal on all ranks of a start: the step's number, MPI's name of the job, the port, or a process of the launcher.
std::string key_of(const Environment& environment, const Variables& variables) {
  const auto value = [&](const char* name) { return environment(name).value_or(""); };
  if (const std::string job = value("SLURM_JOB_ID"); !job.empty() && &variables == &kSlurm) {
    const std::string restarts = value("SLURM_RESTART_COUNT"), step = value("SLURM_STEP_ID");
    return fmt::format("slurm-{}-{}{}", job, step.empty() ? "0" : step, restarts.empty() ? "" : "-" + restarts);
  }
  if (&variables == &kOpenMpi)
    for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
      if (has(environment, name))
        return fmt::format("mpi-{}{}", value(name), value("OMPI_MCA_orte_precondition_transports"));
  if (has(environment, "MASTER_PORT")) return "port-" + value("MASTER_PORT") + value("TORCHELASTIC_RUN_ID");
  return fmt::format("process-{}", launcher_process());
}

// A name has at most 100 bytes.
std::string socket_name(const std::string& key) {
  return fmt::format("unix:hearth-{}-{}", ::getuid(), key.size() <= 40 ? key : xxh3_128_hex(key));
}

// Ports that nobody asked for, from `first` on: where one is taken, rank 0 takes the next.
std::string ports_from(int64_t first, int64_t stride) {
  constexpr int64_t kPorts = 8, kLowest = 20000, kCount = 20000;
  std::string ports = std::to_string(first);
  for (int64_t i = 1; i < kPorts; ++i)
    ports += fmt::format(",{}", stride == 1 ? first + i : kLowest + (first - kLowest + i * stride) % kCount);
  return ports;
}

std::string address_of(const Environment& environment, const Variables& variables, bool one_host,
                       const std::string& key) {
  if (one_host) return socket_name(key);
  std::string host = environment("MASTER_ADDR").value_or("");
  int64_t port = has(environment, "MASTER_PORT") ? number(environment, "MASTER_PORT", 1, 65535) : 0;
  if (&variables == &kSlurm) {
    if (host.empty()) host = first_host(environment("SLURM_STEP_NODELIST").value_or(""));
    if (port == 0 && !host.empty())
      return fmt::format("tcp:{}:{}", host,
                         ports_from(20000 + number(environment, "SLURM_JOB_ID", 1, INT64_MAX) % 20000, 2503));
  }
  if (host.empty() || port == 0)
    throw user_error(
        fmt::format("{} started ranks on several hosts, and not all know where rank 0 is", variables.launcher),
        "MASTER_ADDR and MASTER_PORT are not set", "set them to the host of rank 0 and a free port, for all ranks");
  // torchrun's own store has MASTER_PORT.
  const bool taken = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  return fmt::format("tcp:{}:{}", host, taken ? ports_from(port + 1, 1) : std::to_string(port));
}

bool on_one_host(const Environment& environment, const Variables& variables, int64_t size) {
  if (&variables == &kSlurm) return number(environment, "SLURM_STEP_NUM_NODES", 1, kMaxRanks) == 1;
  if (!has(environment, variables.local_size)) return !has(environment, "MASTER_ADDR");
  return number(environment, variables.local_size, 1, kMaxRanks) == size;
}

LaunchedRank launched_rank_by(const Environment& environment, const Variables& variables) {
  LaunchedRank launched;
  launched.launcher = variables.launcher;
  launched.size = number(environment, variables.size, 1, kMaxRanks);
  launched.rank = number(environment, variables.rank, 0, launched.size - 1);
  launched.key = key_of(environment, variables);
  launched.address =
      address_of(environment, variables, on_one_host(environment, variables, launched.size), launched.key);
  return launched;
}

// An MPI that does not know Slurm's way to start ranks gives each of N tasks a world of one.
void check_against_slurm(const Environment& environment, const LaunchedRank& launched) {
  if (launched.size > 1 || !has(environment, kSlurm.size)) return;
  const int64_t tasks = number(environment, kSlurm.size, 1, kMaxRanks);
  if (tasks > 1 && has(environment, "SLURM_STEP_ID") && environment("SLURM_STEP_TASKS_PER_NODE").value_or("") != "1")
    throw user_error(
        fmt::format("srun started {} tasks, and {} says that each is a world of its own", tasks, launched.launcher),
        "this srun --mpi=... does not suit the MPI", "use srun without --mpi, or mpirun alone");
}

}  // namespace

std::optional<LaunchedRank> launched_rank_in(const Environment& environment) {
  // A batch script has SLURM_PROCID, too, but is no step.
  const bool is_step =
      has(environment, kSlurm.rank) && has(environment, kSlurm.size) && has(environment, "SLURM_STEP_NUM_NODES");
  for (const Variables* variables : {&kTorchrun, &kOpenMpi, &kMpich}) {
    if (!has(environment, variables->rank) || !has(environment, variables->size)) continue;
    // srun --mpi=pmi2 sets PMI's variables, too. Slurm's say more: the step, and its first host.
    if (variables == &kMpich && is_step && environment(kMpich.size) == environment(kSlurm.size)) continue;
    const LaunchedRank launched = launched_rank_by(environment, *variables);
    check_against_slurm(environment, launched);
    return launched;
  }
  if (is_step) return launched_rank_by(environment, kSlurm);
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank_in_environment() {
  return launched_rank_in([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace hearth::launch
