// SPDX-License-Identifier: Apache-2.0
// `hearth submit`: writes the batch script of a run and starts its first job. The script itself asks for the next ones.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/log.h"
#include "base/program.h"
#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "cluster/job_script.h"
#include "cluster/run_status.h"
#include "cluster/slurm.h"
#include "cluster/starts.h"
#include "commands/commands.h"
#include "commands/run_file.h"
#include "config/derived.h"
#include "config/load.h"
#include "data/shard/manifest.h"
#include "hub/process.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

struct SubmitOptions {
  Path run_toml;
  std::string cluster, account, partition, time_limit;
  int64_t nodes = 0;
  bool dry_run = false;
  cluster::JobScript job;  // with the options that go into the script; the rest of it is found
};

// Without --cluster: this machine, unless it could as well be a cluster's.
cluster::ClusterFile chosen_cluster(const SubmitOptions& options) {
  if (options.cluster.empty() && !hub::find_program("sbatch").empty())
    throw user_error("--cluster is not given, and this host has sbatch",
                     "without --cluster the run would train on this host itself, which may be a login node",
                     "give --cluster NAME or --cluster FILE; --cluster local means this host");
  cluster::ClusterFile file = cluster::find_cluster_file(options.cluster.empty() ? "local" : options.cluster);
  const auto replace = [&file](const char* option, const std::string& given, std::string& key) {
    if (given.empty()) return;
    if (!file.has_slurm())
      throw user_error(fmt::format("{} was given, and the cluster file {} has no scheduler", option, file.name), {},
                       fmt::format("remove {}, or give another --cluster", option));
    key = given;
  };
  replace("--account", options.account, file.account);
  replace("--partition", options.partition, file.partition);
  replace("--time-limit", options.time_limit, file.time_limit);
  if (!options.job.exclude.empty() && !file.has_slurm())
    throw user_error("--exclude was given, and the cluster file has no scheduler", {}, "remove --exclude");
  if (const int64_t limit = cluster::seconds_of_time_limit(file.time_limit); !options.time_limit.empty()) {
    if (limit <= 0)
      throw user_error(fmt::format("--time-limit {} is not a time", options.time_limit), {},
                       "write HH:MM:SS, D-HH:MM:SS, or minutes, up to a year");
    if (limit <= file.signal_lead_seconds)
      throw user_error(fmt::format("--time-limit {} is too short", options.time_limit),
                       fmt::format("the training saves and leaves {} s before it (job.signal_lead_seconds)",
                                   file.signal_lead_seconds),
                       "give more time, or a cluster file with a shorter lead");
  }
  return file;
}

// The number of nodes, and of ranks on each: as the options say, else the run file, else the cluster file.
void choose_ranks(SubmitOptions& options) {
  cluster::JobScript& job = options.job;
  cluster::ClusterFile& file = job.cluster;
  const config::LoadResult run = config::read_run(options.run_toml, options.job.sets);
  config::throw_problems(run.file_name, run.problems);
  const int64_t degree = run.config.parallelism.data_parallel_shard_degree;
  const int64_t ranks = run.config.parallelism.ranks();
  const bool says = ranks > 1 || (run.origin("parallelism.data_parallel_shard_degree").given() && degree > 0);
  const bool one_node = file.launcher == "local";
  if (one_node && options.nodes > 1)
    throw user_error(
        fmt::format("--nodes {} was given, and the cluster file {} starts ranks on one node", options.nodes, file.name),
        "start.launcher = \"local\" starts processes of one host", "remove --nodes, or give another --cluster");
  job.nodes = options.nodes > 0 ? options.nodes : one_node ? 1 : file.nodes;
  if (!says || options.nodes > 0) return;
  if (one_node || ranks <= file.ranks_per_node) {
    job.nodes = 1;
    file.ranks_per_node = ranks;
    file.gpus_per_node = std::min(file.gpus_per_node, ranks);
    return;
  }
  if (ranks % file.ranks_per_node != 0)
    throw user_error(fmt::format("the run has {} ranks, which do not fill nodes of {}", ranks, file.ranks_per_node),
                     fmt::format("job.ranks_per_node is {} in the cluster file {}", file.ranks_per_node, file.name),
                     "change [parallelism] of the run file, or give --nodes");
  job.nodes = ranks / file.ranks_per_node;
}

// What can be checked without hearth-train: the job may start in a day, and on another host.
void check_submitted_run(const SubmitOptions& options) {
  const config::LoadResult loaded = config::read_and_check(options.run_toml, options.job.sets, options.job.ranks());
  config::throw_problems(loaded.file_name, loaded.problems);
  config::with_places(loaded, [&loaded] {
    for (const config::DataSource& source : loaded.config.sources())
      static_cast<void>(data::read_manifest(normal_path(loaded.config.resolve(source.path))));
  });
}

// The steps of the run that is done and has all of them; nullopt: there is something to do. A job would only find that.
std::optional<int64_t> steps_of_done_run(const SubmitOptions& options) {
  const cluster::JobScript& job = options.job;
  if (!path_exists(job.run / runfolder::kDoneFile)) return std::nullopt;
  const config::RunConfig config = config::read_run(options.run_toml, options.job.sets, job.ranks()).config;
  const std::vector<int64_t> steps = checkpoint::list_steps(job.checkpoints);
  if (steps.empty()) return std::nullopt;
  if (config.training.epochs > 0) {  // the number of steps needs the data: as long as the last time?
    if (!path_exists(job.run / runfolder::kRunFile)) return std::nullopt;
    const config::RunConfig before = config::read_run(job.run / runfolder::kRunFile, {}).config;
    const auto paths = [](const config::RunConfig& c) {
      std::vector<Path> found;
      for (const config::DataSource& source : c.sources()) found.push_back(absolute_path(c.resolve(source.path)));
      return found;
    };
    if (before.training.epochs < config.training.epochs || paths(before) != paths(config)) return std::nullopt;
  } else if (steps.back() < config::total_steps(config, 0)) {
    return std::nullopt;
  }
  Path exported = checkpoint::step_folder(job.checkpoints, steps.back());
  exported += "-hf";
  if (config.checkpoint.last_save_in_hf && !path_exists(exported)) return std::nullopt;
  return steps.back();
}

void refuse_second_job(const Path& run) {
  if (!path_exists(cluster::starts_file(run)) && !path_exists(run / runfolder::kLeaseFile)) return;
  const cluster::RunStatus status = cluster::run_status(run);
  if (status.state == cluster::RunState::kUnknown && !status.job.empty())
    throw Error(ExitCode::kHardware,
                fmt::format("it is not known whether job {} of the run {} waits or runs", status.job, run.string()),
                status.why,
                fmt::format("submit again when it is known; or, if the job is gone for good, remove {}",
                            cluster::starts_file(run).string()));
  if (status.state != cluster::RunState::kQueued && status.state != cluster::RunState::kRunning) return;
  const std::string what =
      status.holder || status.orphan ? fmt::format("a training, {}", status.why) : fmt::format("job {}", status.job);
  throw user_error(fmt::format("the run {} is {} already: {}", run.string(), name_of(status.state), what),
                   "two jobs of one run would write into one folder",
                   fmt::format("wait for it, end it with hearth stop {}, or give this one another job.dump_folder",
                               cluster::shell_word(run.string())));
}

// Starts the script as a process of this host that outlives this one, and returns its job's name.
std::string start_locally(const Path& run) {
  const Path script = run / "job.sh";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) throw system_error("cannot start a process", errno);
  if (child == 0) {
    ::setsid();
    const pid_t process = ::fork();  // the script's parent is init: nobody waits for it
    if (process != 0) {
      static_cast<void>(!::write(ends[1], &process, sizeof process));
      ::_exit(process < 0 ? 1 : 0);
    }
    const std::string log = (run / runfolder::kLogsFolder / fmt::format("job-local-{}.log", ::getpid())).string();
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    const int none = ::open("/dev/null", O_RDONLY);
    ::dup2(none, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::signal(SIGHUP, SIG_IGN);
    ::execlp("bash", "bash", script.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  pid_t process = -1;
  const bool known = ::read(ends[0], &process, sizeof process) == sizeof process && process > 0;
  // The pipe ends when the process has become bash, by which `hearth status` knows it.
  for (char none = 0; known && ::read(ends[0], &none, 1) > 0;) continue;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!known) throw Error(ExitCode::kHardware, "the job's script did not start", {}, "run it: bash " + script.string());
  return fmt::format("local-{}", process);
}

// Ends a job that has not begun to train. The error that led to it matters more than one of this.
void cancel(const std::string& job) {
  try {
    if (const auto process = cluster::local_process(job))
      ::kill(-::getpgid(static_cast<pid_t>(*process)), SIGKILL);  // the script and what it started
    else
      cluster::cancel_slurm_job(job);
  } catch (const Error& e) {
    log_message(LogLevel::kWarning, fmt::format("job {} goes on without a record: {}", job, e.message()));
  }
}

// Writes the script, starts the first job, and records it.
std::string start_job(const cluster::JobScript& job, const std::string& text) {
  make_folders(job.run / runfolder::kLogsFolder);
  const auto lock = FileLock::try_lock(cluster::submit_lock(job.run));
  if (lock == nullptr)
    throw user_error(fmt::format("another hearth submit works on {}", job.run.string()), {}, "wait for it");
  refuse_second_job(job.run);
  const Path script = job.run / "job.sh";
  write_file_atomic(script, text);
  std::filesystem::permissions(script, std::filesystem::perms::owner_exec, std::filesystem::perm_options::add);
  std::string id = job.cluster.has_slurm() ? cluster::submit_batch(script, job.cluster.name) : start_locally(job.run);
  try {
    cluster::append_start(
        job.run, {.name = "submit", .job = id, .cluster = job.cluster.name, .nodes = job.nodes, .ranks = job.ranks()});
  } catch (const Error&) {
    cancel(id);  // nobody would know of it
    throw;
  }
  return id;
}

}  // namespace

int submit(CommandLine& line) {
  SubmitOptions options;
  line.positional("RUN.toml", &options.run_toml, "the run file");
  line.option("--cluster NAME|FILE", &options.cluster,
              "the cluster file: one of those that come with Hearth, or your own; without it, this host trains");
  line.option("--nodes N", &options.nodes, within(0, 1 << 20),
              "nodes of a job; 0: as the run file says, else the cluster file");
  line.option("--account NAME", &options.account, "the project that pays, in place of the cluster file's");
  line.option("--partition NAME", &options.partition, "the queue, in place of the cluster file's");
  line.option("--time-limit TIME", &options.time_limit, "of a job, such as 12:00:00, in place of the cluster file's");
  line.option("--max-restarts N", &options.job.max_restarts, within(0, 1 << 20),
              "restarts after failures, in a row without a new checkpoint; then the run stops");
  line.option("--exclude NODES", &options.job.exclude, "nodes that the job must not get, as Slurm writes them");
  line.flag("--preflight", &options.job.preflight,
            "check the nodes of each job before the training (hearth preflight)");
  line.option("--set SECTION.KEY=VALUE", &options.job.sets, kSetHelp);
  line.flag("--dry-run", &options.dry_run, "print the script and do nothing");
  if (!line.parse()) return 0;

  cluster::JobScript& job = options.job;
  job.cluster = chosen_cluster(options);
  choose_ranks(options);
  check_submitted_run(options);
  const config::RunConfig config = config::load(options.run_toml, options.job.sets);
  job.command = "hearth submit";
  for (const std::string& word : line.arguments()) job.command += " " + cluster::shell_word(word);
  job.hearth = job.cluster.hearth.empty() ? own_program() : Path(job.cluster.hearth);
  job.run_file = absolute_path(options.run_toml);
  job.run = absolute_path(config.run_folder());
  job.checkpoints =
      is_object(config.checkpoint_folder()) ? config.checkpoint_folder() : absolute_path(config.checkpoint_folder());
  const bool shipped = job.cluster.path != Path(options.cluster);
  job.cluster_argument = shipped ? job.cluster.name : absolute_path(job.cluster.path).string();
  const std::string text = cluster::job_script(job);
  if (options.dry_run) {
    fmt::print("{}", text);
    return 0;
  }
  if (const std::optional<int64_t> steps = steps_of_done_run(options)) {
    fmt::print("nothing to do: {} has all {} steps\nnext: hearth report {} --out report.html\n", job.run.string(),
               *steps, cluster::shell_word(job.run.string()));
    return 0;
  }
  const std::string id = start_job(job, text);
  fmt::print("job {}: {} on {}, {}, {}\n", id, job.run.string(), job.cluster.name, counted(job.nodes, "node"),
             counted(job.ranks(), "rank"));
  fmt::print("its script is {}\nnext: hearth status {}\n", (job.run / "job.sh").string(), shell_word(job.run.string()));
  return 0;
}

}  // namespace hearth::commands
