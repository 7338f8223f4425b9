// SIGKILL of a random rank at a random moment, again and again: the rank is named, the others end in time, and the run
// ends with the bits of an undisturbed one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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

class RankKills : public testing::TestWithParam<Launcher> {};

TEST_P(RankKills, ChangeNothing) {
  const Launcher& launcher = GetParam();
  if (*launcher.path != '\0' && !std::filesystem::exists(launcher.path))
    GTEST_SKIP() << launcher.path << " is not here";
  std::optional<Cluster> cluster;
  if (launcher.name == std::string("Srun")) {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    cluster.emplace();
  }
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.parallelism = launcher.layout;
  const int64_t num_ranks = c.parallelism.ranks();
  c.training.threads = num_ranks;
  c.training.global_batch_size = 6;
  c.training.steps = 40 * launcher.kills;  // a busy machine is late with each kill
  c.comm.train_timeout_seconds = 3600;     // is not what ends the others
  c.checkpoint.interval = 3;
  c.checkpoint.keep_latest_k = 3;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, c.training.steps));

  c.job.dump_folder = "killed";
  const Path log = scratch / "log";
  std::vector<std::string> words = launcher.words;
  if (*launcher.path != '\0') words.push_back(train_binary());
  const Path run_file = write_run_file(c);
  words.insert(words.end(), {"train", run_file.string()});
  const std::string program = *launcher.path == '\0' ? train_binary() : launcher.path;
  const RandomKey key = random_key(1, "rank kills");
  double slowest_s = 0;
  int kills = 0;
  for (uint64_t i = 0; kills < launcher.kills && steps_logged(c) < c.training.steps; ++i) {
    write_file_atomic(log, "");
    RunProcess process(words, log, "", program);
    const int64_t at_step = steps_logged(c) + 1 + static_cast<int64_t>(random_u64(key, 3 * i) % 5);
    if (!wait_until(process, [&] { return steps_logged(c) >= at_step; })) break;  // the run is done
    std::this_thread::sleep_for(std::chrono::microseconds(random_u64(key, 3 * i + 1) % 8000));
    const std::vector<pid_t> ranks = find_ranks(run_file, process.pid());
    if (std::ssize(ranks) != num_ranks) break;
    const pid_t victim = ranks[random_u64(key, 3 * i + 2) % static_cast<uint64_t>(num_ranks)];
    const auto begin = std::chrono::steady_clock::now();
    ::kill(victim, SIGKILL);
    std::chrono::duration<double> taken{};
    while (std::any_of(ranks.begin(), ranks.end(), runs)) {
      taken = std::chrono::steady_clock::now() - begin;
      ASSERT_LT(taken.count(), 600) << "ranks still run after " << victim << " was killed\n" << read_file(log);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    taken = std::chrono::steady_clock::now() - begin;
    slowest_s = std::max(slowest_s, taken.count());
    EXPECT_NE(process.wait(), 0);
    // srun --kill-on-bad-exit ends the others at once: it may be faster than their message, and then names the task.
    EXPECT_THAT(read_file(log), testing::AnyOf(testing::HasSubstr(fmt::format("process {})", victim)),
                                               testing::ContainsRegex("srun: error: .*: task [0-9]+: Killed")));
    ++kills;
  }
  EXPECT_EQ(kills, launcher.kills) << "the run ended too early\n" << read_file(log);
  std::printf("the slowest end took %.2f s\n", slowest_s);
  RunProcess last(words, log, "", program);
  EXPECT_EQ(last.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, c.training.steps)), tensors);
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
