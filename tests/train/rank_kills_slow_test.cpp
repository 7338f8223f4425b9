// SPDX-License-Identifier: Apache-2.0
// SIGKILL of a random rank at a random moment, again and again: the rank is named, the others end in time, and the run
// ends with the bits of an undisturbed one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/random.h"
#include "run_process.h"
#include "support/slurm_cluster.h"

namespace hearth::train {
namespace {

using test::Cluster;

// The processes of hearth-train that train this run, whichever launcher started them; not the launcher.
std::vector<pid_t> find_ranks(const Path& run_file, pid_t launcher) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    std::string name, words;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    std::getline(std::ifstream(entry.path() / "cmdline"), words);
    if (process > 0 && process != launcher && name == "hearth-train" && words.find(run_file) != std::string::npos)
      ranks.push_back(process);
  }
  return ranks;
}

bool runs(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.find('Z') == std::string::npos;
  return false;
}

struct Launcher {
  const char* name;
  const char* path;  // empty: hearth-train itself
  std::vector<std::string> words;
  config::Parallelism layout = {.data_parallel_shard_degree = 3};
  int kills = 200;
};

class RankKills : public testing::TestWithParam<Launcher> {
 protected:
  config::RunConfig tiny_run() const {
    config::RunConfig c = tiny_config(scratch_);
    c.parallelism = GetParam().layout;
    c.training.threads = c.parallelism.ranks();
    c.training.global_batch_size = 6;
    c.training.steps = 2000;
    c.comm.train_timeout_seconds = 3600;  // is not what ends the others
    c.checkpoint.interval = 3;
    c.checkpoint.keep_latest_k = 3;
    return c;
  }
  std::unique_ptr<RunProcess> start(const Path& run_file) {
    const Launcher& launcher = GetParam();
    const bool is_alone = *launcher.path == '\0';
    std::vector<std::string> words = launcher.words;
    if (!is_alone) words.push_back(train_binary());
    words.insert(words.end(), {"train", run_file.string()});
    write_file_atomic(log_, "");
    return std::make_unique<RunProcess>(words, log_, "", is_alone ? train_binary() : launcher.path);
  }
  // Starts the run and kills one of its ranks at a random moment. False if the run was done before.
  bool kill_a_rank(const config::RunConfig& c, const Path& run_file) {
    const auto random = [this](uint64_t below) { return random_u64(key_, drawn_++) % below; };
    if (steps_logged(c) >= c.training.steps) return false;
    const auto process = start(run_file);
    const int64_t at_step = steps_logged(c) + 1 + static_cast<int64_t>(random(5));
    if (!wait_until(*process, [&] { return steps_logged(c) >= at_step; })) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(random(8000)));
    const std::vector<pid_t> ranks = find_ranks(run_file, process->pid());
    if (std::ssize(ranks) != c.parallelism.ranks()) return false;  // it ends
    const pid_t victim = ranks[random(ranks.size())];
    const auto begin = std::chrono::steady_clock::now();
    ::kill(victim, SIGKILL);
    std::chrono::duration<double> taken{};
    while (std::any_of(ranks.begin(), ranks.end(), runs)) {
      taken = std::chrono::steady_clock::now() - begin;
      if (taken.count() > 600) {
        ADD_FAILURE() << "ranks still run after " << victim << " was killed\n" << read_file(log_);
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    slowest_s_ = std::max(slowest_s_, taken.count());
    EXPECT_NE(process->wait(), 0);
    // srun --kill-on-bad-exit ends the others at once: it may be faster than their message, and then names the task.
    EXPECT_THAT(read_file(log_), testing::AnyOf(testing::HasSubstr(fmt::format("process {})", victim)),
                                                testing::ContainsRegex("srun: error: .*: task [0-9]+: Killed")));
    return true;
  }

  test::ScratchFolder scratch_;
  const Path log_ = scratch_ / "log";
  const RandomKey key_ = random_key(1, "rank kills");
  uint64_t drawn_ = 0;
  double slowest_s_ = 0;
};

TEST_P(RankKills, ChangeNothing) {
  const Launcher& launcher = GetParam();
  if (*launcher.path != '\0' && !std::filesystem::exists(launcher.path))
    GTEST_SKIP() << launcher.path << " is not here";
  std::optional<Cluster> cluster;
  if (launcher.name == std::string("Srun")) {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    cluster.emplace();
  }
  build_tiny_data(scratch_);
  config::RunConfig c = tiny_run();
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, c.training.steps));

  // On a busy machine kills are late, and a run is over before it was killed that often: then another one begins.
  int kills = 0;
  for (int run = 0; kills < launcher.kills && !HasFailure(); ++run) {
    SCOPED_TRACE(fmt::format("run {}", run));
    c.job.dump_folder = fmt::format("killed-{}", run);
    const Path run_file = write_run_file(c);
    const int before = kills;
    while (kills < launcher.kills && kill_a_rank(c, run_file)) ++kills;
    ASSERT_GT(kills, before) << "a whole run without a kill\n" << read_file(log_);
    EXPECT_EQ(start(run_file)->wait(), 0) << read_file(log_);
    expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
    EXPECT_EQ(tensors_of(step_of(c, c.training.steps)), tensors);
  }
  std::printf("the slowest end took %.2f s\n", slowest_s_);
}

INSTANTIATE_TEST_SUITE_P(
    Under, RankKills,
    testing::Values(
        Launcher{"Hearth", "", {}},
        Launcher{"HearthWithAPipeline",
                 "",
                 {},
                 {.data_parallel_shard_degree = 1, .tensor_parallel_degree = 2, .pipeline_parallel_degree = 2},
                 40},
        Launcher{"Mpirun", "/usr/bin/mpirun.openmpi", {"--allow-run-as-root", "--oversubscribe", "-n", "3"}},
        Launcher{"Srun", "/usr/bin/srun", {"-N2", "-n3", "--kill-on-bad-exit=1", "--quiet"}}),
    [](const auto& about) { return about.param.name; });

}  // namespace
}  // namespace hearth::train
