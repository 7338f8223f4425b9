#include "launch/place.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"

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

// All ranks of a host have one parent, or are of one Slurm step.
std::string key_of(const Environment& environment, const Variables& variables) {
  if (const auto job = environment("SLURM_JOB_ID"); job && &variables == &kSlurm)
    return fmt::format("slurm-{}-{}", *job, environment("SLURM_STEP_ID").value_or("0"));
  if (has(environment, "MASTER_PORT")) return "port-" + *environment("MASTER_PORT");
  return fmt::format("parent-{}", ::getppid());
}

std::string address_of(const Environment& environment, const Variables& variables, bool one_host,
                       const std::string& key) {
  if (one_host) return fmt::format("unix:hearth-{}-{}", ::getuid(), key);
  std::string host = environment("MASTER_ADDR").value_or("");
  int64_t port = has(environment, "MASTER_PORT") ? number(environment, "MASTER_PORT", 1, 65535) : 0;
  if (&variables == &kSlurm) {
    if (host.empty()) host = first_host(environment("SLURM_STEP_NODELIST").value_or(""));
    if (port == 0) port = 20000 + number(environment, "SLURM_JOB_ID", 1, INT64_MAX) % 20000;
  }
  if (host.empty() || port == 0)
    throw user_error(
        fmt::format("{} started ranks on several hosts, and not all know where rank 0 is", variables.launcher),
        "MASTER_ADDR and MASTER_PORT are not set", "set them to the host of rank 0 and a free port, for all ranks");
  // torchrun's own store has MASTER_PORT.
  const bool taken = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  return fmt::format("tcp:{}:{}", host, taken ? port + 1 : port);
}

bool on_one_host(const Environment& environment, const Variables& variables, int64_t size) {
  if (&variables == &kSlurm) return number(environment, "SLURM_STEP_NUM_NODES", 1, kMaxRanks) == 1;
  if (!has(environment, variables.local_size)) return !has(environment, "MASTER_ADDR");
  return number(environment, variables.local_size, 1, kMaxRanks) == size;
}

Place place_by(const Environment& environment, const Variables& variables) {
  Place place;
  place.launcher = variables.launcher;
  place.size = number(environment, variables.size, 1, kMaxRanks);
  place.rank = number(environment, variables.rank, 0, place.size - 1);
  place.key = key_of(environment, variables);
  place.address = address_of(environment, variables, on_one_host(environment, variables, place.size), place.key);
  return place;
}

// An MPI that does not know Slurm's way to start ranks gives each of N tasks a world of one.
void check_against_slurm(const Environment& environment, const Place& place) {
  if (place.size > 1 || !has(environment, kSlurm.size)) return;
  const int64_t tasks = number(environment, kSlurm.size, 1, kMaxRanks);
  if (tasks > 1 && has(environment, "SLURM_STEP_ID") && environment("SLURM_STEP_TASKS_PER_NODE").value_or("") != "1")
    throw user_error(
        fmt::format("srun started {} tasks, and {} says that each is a world of its own", tasks, place.launcher),
        "this srun --mpi=... does not suit the MPI", "use srun without --mpi, or mpirun alone");
}

}  // namespace

std::optional<Place> place_in(const Environment& environment) {
  // A batch script has SLURM_PROCID, too, but is no step.
  const bool is_step =
      has(environment, kSlurm.rank) && has(environment, kSlurm.size) && has(environment, "SLURM_STEP_NUM_NODES");
  for (const Variables* variables : {&kTorchrun, &kOpenMpi, &kMpich}) {
    if (!has(environment, variables->rank) || !has(environment, variables->size)) continue;
    // srun --mpi=pmi2 sets PMI's variables, too. Slurm's say more: the step, and its first host.
    if (variables == &kMpich && is_step && environment(kMpich.size) == environment(kSlurm.size)) continue;
    const Place place = place_by(environment, *variables);
    check_against_slurm(environment, place);
    return place;
  }
  if (is_step) return place_by(environment, kSlurm);
  return std::nullopt;
}

std::optional<Place> place_in_environment() {
  return place_in([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace hearth::launch
