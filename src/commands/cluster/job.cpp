// SPDX-License-Identifier: Apache-2.0
// `hearth job`: called by a job's script, not by people. "before": may the ranks start? "after": what comes now? Prints
// a word for the script, and the seconds to wait first. "queued": another job goes on for this one. "current": exit
// code 0 if no newer start has the run, else 75. "node": can this node run it? Prints "fine NODE" or "off NODE", and
// what it has (cluster/node_reports.h). "compare": reads these lines of all nodes, and calls those unlike most off, and
// those with another run folder.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/hash.h"
#include "base/log.h"
#include "base/program.h"
#include "checkpoint/retain.h"
#include "cluster/goodput.h"
#include "cluster/job_log.h"
#include "cluster/node_reports.h"
#include "cluster/starts.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run_file.h"
#include "config/load.h"
#include "data/shard/manifest.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

struct JobOptions {
  std::string event;
  Path run, checkpoints, bad_nodes, run_file;
  std::vector<std::string> sets;
  std::string job, start, signal = "none", next_job, token, host, off_nodes;
  int64_t code = 0, max_restarts = 0, requeues = 0;
};

// The name of this node. Slurm's lists need its own name for the host.
std::string node_name() {
  const char* const given = std::getenv("SLURMD_NODENAME");
  return given == nullptr ? host_name() : given;
}

int64_t newest_checkpoint_step(const Path& checkpoints) {
  const std::vector<int64_t> steps = checkpoint::list_steps(checkpoints);
  return steps.empty() ? 0 : steps.back();
}

// Those that the script names. Scripts that were written before there was --off-nodes have them in a file.
std::vector<std::string> bad_nodes_of(const JobOptions& options) {
  std::vector<std::string> nodes;
  if (!options.off_nodes.empty())
    nodes = split(options.off_nodes, ',');
  else if (!options.bad_nodes.empty() && path_exists(options.bad_nodes))
    nodes = split_lines(read_file(options.bad_nodes));
  std::erase(nodes, "");
  return nodes;
}

// The first error of the ranks. Those of an older start, which may still compute on a host that was cut off, do not
// count. Ranks whose launcher keeps the environment from them name no start: they are known by being the only ones.
std::string error_of_ranks(const JobOptions& options, const std::string& log) {
  std::string error = cluster::error_of_start(log, options.start);
  return error.empty() && options.requeues == 0 ? cluster::error_of_start(log, {}) : error;
}

// Why the first of these nodes is off, of which the log says it.
std::string fault_of_nodes(const std::vector<std::string>& nodes, const std::string& log) {
  for (const std::string& node : nodes)
    if (const std::string fault = cluster::fault_of_node(log, node); !fault.empty())
      return fmt::format("{}: {}", node, fault);
  return {};
}

// A job may run before `hearth submit` has written its name down.
void wait_for_submit(const Path& run) {
  constexpr int kAttempts = 1200;  // a minute
  for (int i = 0; i < kAttempts && FileLock::try_lock(cluster::submit_lock(run)) == nullptr; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

int before_start(const JobOptions& options) {
  wait_for_submit(options.run);
  const std::vector<cluster::StartEvent> events = cluster::read_starts(options.run);
  const int64_t step = newest_checkpoint_step(options.checkpoints);
  for (auto e = events.rbegin(); e != events.rend() && e->job != options.job; ++e)
    if (e->name != "end" && e->name != "stop")
      throw Error(ExitCode::kAskedToLeave,
                  fmt::format("job {} does not start: job {} goes on with the run", options.job, e->job));
  if (!events.empty() && events.back().name == "stop")
    throw Error(ExitCode::kAskedToLeave, fmt::format("job {} does not start: `hearth stop` asked for it", options.job));
  if (const int64_t vain = cluster::starts_without_progress(events, step); vain > options.max_restarts)
    throw Error(ExitCode::kAskedToLeave,  // the script does not ask again
                fmt::format("job {} does not start: {} starts in a row made no new checkpoint", options.job, vain),
                "nothing says that one more would", "find the cause in the logs, then hearth submit");
  remove_file(options.run / runfolder::kDoneFile);
  cluster::append_start(
      options.run,
      {.name = "start", .host = options.host, .job = options.job, .step = step, .requeues = options.requeues});
  if (!options.start.empty()) log_info("hearth: job {} begins start {} at step {}", options.job, options.start, step);
  return 0;
}

// Seconds since the newest start, of which each has a whole number; 0 without one.
double seconds_since_start(const std::vector<cluster::StartEvent>& events) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  for (auto e = events.rbegin(); e != events.rend(); ++e)
    if (e->name == "start") return std::max(0.0, now.count() - cluster::seconds_of_time(e->time));
  return 0;
}

int after_end(const JobOptions& options) {
  const std::vector<cluster::StartEvent> events = cluster::read_starts(options.run);
  const std::string log = cluster::read_job_log(options.run, options.job);
  const std::string error = error_of_ranks(options, log);
  const std::vector<std::string> bad_nodes = bad_nodes_of(options);
  const cluster::Ended ended{.job = options.job,
                             .code = options.code,
                             .signal = options.signal,
                             .is_done = path_exists(options.run / runfolder::kDoneFile),
                             .step = newest_checkpoint_step(options.checkpoints),
                             .bad_nodes = bad_nodes,
                             .error = error,
                             .disk_is_full = cluster::says_full_disk(error, {options.run, options.checkpoints}),
                             .lasted_s = seconds_since_start(events),
                             .fault = fault_of_nodes(bad_nodes, log)};
  const std::string host = cluster::started_elsewhere(events, options.job, options.host, options.requeues);
  if (!host.empty()) {
    // The run's history is that of the newer start.
    log_info("hearth: job {} leaves: it was started again on {}", options.job, host);
    fmt::print("{}\n", name_of(cluster::Next::kLeave));
    return 0;
  }
  const cluster::RestartDecision decision = cluster::decide(events, ended, options.max_restarts);
  cluster::append_start(options.run, {.name = "end",
                                      .host = options.host,
                                      .job = options.job,
                                      .step = ended.step,
                                      .code = ended.code,
                                      .signal = ended.signal,
                                      .next = std::string(name_of(decision.next)),
                                      .why = decision.why});
  log_info("hearth: job {} at step {}: {}; next: {}", options.job, ended.step, decision.why, name_of(decision.next));
  // Where somebody asked for the end, the job has not failed.
  fmt::print("{} {}\n", decision.is_asked ? "cancel" : name_of(decision.next), decision.wait_s);
  return 0;
}

int is_current(const JobOptions& options) {
  const std::vector<cluster::StartEvent> events = cluster::read_starts(options.run);
  const bool elsewhere = !cluster::started_elsewhere(events, options.job, options.host, options.requeues).empty();
  const bool is_newest = cluster::newest_job(events) == options.job;
  return static_cast<int>(is_newest && !elsewhere ? ExitCode::kDone : ExitCode::kAskedToLeave);
}

std::string dataset_found(const Path& folder) {
  const data::DatasetManifest manifest = data::read_manifest(folder);
  return fmt::format("{} with the identity {}, tokenizer {}", folder.string(), manifest.identity,
                     manifest.tokenizer_hash);
}

// The files that a rank of this node reads and writes at its start, with what tells whether all ranks read the same.
// Throws the Error that it would meet.
std::vector<std::string> try_files(const JobOptions& options) {
  std::vector<std::string> found;
  const config::LoadResult run = config::read_run(options.run_file, options.sets);
  if (!run.syntax_error && run.problems.empty()) {  // those are not the node's
    const config::RunConfig& config = run.config;
    for (const config::DataSource& source : config.sources())
      found.push_back(dataset_found(normal_path(config.resolve(source.path))));
    for (const config::ValidationSet& set : config.validation.set)
      found.push_back(dataset_found(normal_path(config.resolve(set.path))));
    if (const std::string& weights = config.training.token_weights; !weights.empty())
      found.push_back(fmt::format("{} with the hash {}", weights, xxh3_128_hex(read_file(config.resolve(weights)))));
  }
  const Path file = options.run / fmt::format(".node-{}", node_name());
  write_file_atomic(file, "The job's script looks whether its nodes can write here.\n");
  remove_file(file);
  return found;
}

// Whether the run folder has what the job's script wrote into it just before. Another host's file may come late.
bool finds_token(const JobOptions& options) {
  constexpr int kAttempts = 12;  // three seconds
  for (int i = 0; i < kAttempts; ++i) {
    if (path_exists(options.run / options.token)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
  return false;
}

bool knows_submission(const JobOptions& options) {
  const std::vector<cluster::StartEvent> events = cluster::read_starts(options.run);
  return std::ranges::any_of(events, [&options](const cluster::StartEvent& e) {
    return e.job == options.job && (e.name == "submit" || e.name == "queued");
  });
}

int try_node(const JobOptions& options) {
  const std::string node = node_name();
  std::string wrong;
  std::vector<std::string> found = split_lines(output_of_hearth_train({"--version"}));
  std::string folder;
  if (found.empty()) wrong = "hearth-train does not start here";
  try {
    if (wrong.empty()) std::ranges::move(try_files(options), std::back_inserter(found));
    if (wrong.empty() && !options.token.empty())
      folder = fmt::format("folder {} {} {}\n", node, finds_token(options) ? "same" : "other",
                           knows_submission(options) ? "known" : "unknown");
  } catch (const Error& e) {
    wrong = e.why().empty() ? e.message() : e.message() + ": " + e.why();
  }
  if (wrong.empty())
    for (const std::string& text : found) fmt::print("found {} {}\n", node, text);
  else
    log_info("hearth: node {}: {}", node, wrong);
  fmt::print("{}{} {}\n", folder, wrong.empty() ? "fine" : "off", node);
  return 0;
}

int compare_nodes(const JobOptions& options) {
  const std::string reports = read_stream("/dev/stdin");
  std::set<std::string> odd;
  const cluster::OtherFolder other = cluster::nodes_with_another_folder(reports);
  for (const std::string& node : other.nodes) {
    log_info("hearth: node {}: {} is another folder there than on {}: not mounted, stale, or local", node,
             options.run.string(), other.usual);
    odd.insert("fine " + node);
  }
  for (const cluster::OddNode& found : cluster::odd_nodes(reports)) {
    log_info("hearth: node {}: has {}, and most nodes have {}", found.node, found.has, found.usual);
    odd.insert("fine " + found.node);
  }
  for (const std::string& line : split_lines(reports))
    if (!line.starts_with("found ") && !line.starts_with("folder "))
      fmt::print("{}\n", odd.contains(line) ? "off" + line.substr(4) : line);
  return 0;
}

}  // namespace

int job(CommandLine& line) {
  JobOptions options;
  line.positional("EVENT", &options.event, "before, after, current, queued, node or compare");
  line.positional("RUN", &options.run, "the run folder");
  line.option("--job ID", &options.job, "the job").required();
  line.option("--start NAME", &options.start, "before, after: the start, as the errors of its ranks name it");
  line.option("--checkpoints DIR", &options.checkpoints, "the run's checkpoints");
  line.option("--max-restarts N", &options.max_restarts, within(0, 1 << 20),
              "starts in a row without a new checkpoint");
  line.option("--code N", &options.code, within(0, 255), "after: the exit code of the ranks");
  line.option("--signal NAME", &options.signal, one_of({"none", "limit", "leave", "preempt", "preflight", "nodes"}),
              "after: what the script was told");
  line.option("--off-nodes NODE,...", &options.off_nodes, "after: nodes that can be left out");
  line.option("--bad-nodes FILE", &options.bad_nodes, "after: the same, one a line");
  line.option("--host NAME", &options.host, "the host of the job's script; without it, this one");
  line.option("--requeues N", &options.requeues, within(0, 1 << 20),
              "how often Slurm has put the job back into the queue");
  line.option("--run-file FILE", &options.run_file, "node: the run file");
  line.option("--token NAME", &options.token, "node: a file that the script has just written into the run folder");
  line.option("--set SECTION.KEY=VALUE", &options.sets, kSetHelp);
  line.option("--next-job ID", &options.next_job, "queued: the job that goes on");
  if (!line.parse()) return 0;
  if (options.host.empty()) options.host = host_name();
  if (options.event == "before") return before_start(options);
  if (options.event == "after") return after_end(options);
  if (options.event == "current") return is_current(options);
  if (options.event == "node") return try_node(options);
  if (options.event == "compare") return compare_nodes(options);
  if (options.event != "queued")
    throw user_error(
        fmt::format("EVENT = \"{}\" is not before, after, current, queued, node or compare", options.event));
  cluster::append_start(options.run,
                        {.name = "queued", .host = options.host, .job = options.next_job, .after = options.job});
  return 0;
}

}  // namespace hearth::commands
