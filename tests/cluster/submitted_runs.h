// SPDX-License-Identifier: Apache-2.0
// Runs that `hearth submit` starts, and what the tests of their jobs ask about them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "cluster/run_status.h"
#include "cluster/starts.h"
#include "data/build/build.h"
#include "metrics/jsonl.h"
#include "support/hearth_command.h"
#include "support/slurm_cluster.h"

namespace hearth::cluster {

using test::Cluster;
using test::CommandResult;
using test::run_hearth;

// False after `seconds`.
template <typename Condition>
bool comes_true(Condition condition, int seconds = 900) {
  for (int tenths = 0; tenths < 10 * seconds && !condition(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return condition();
}

class Runs : public testing::Test {
 protected:
  Runs() {
    make_folders(scratch / "text");
    for (int i = 0; i < 8; ++i) {
      std::string text;
      for (int word = 0; word < 2000; ++word) text += fmt::format("word{} ", (word * word + i) % 97);
      write_file_atomic(scratch / "text" / fmt::format("{}.txt", i), text + "\n");
    }
    data::BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "text"};
    data::BuildProgress progress;
    data::build_dataset(options, progress);
    write_file_atomic(
        toml("cluster"),
        "[job]\nnodes = 1\nranks_per_node = 2\nsignal_lead_seconds = 10\n[environment]\nOMP_NUM_THREADS = 1\n");
  }

  // A run of two ranks whose steps take some milliseconds each.
  void write_run(const std::string& name, int64_t steps, int64_t interval) {
    write_file_atomic(toml(name),
                      fmt::format("[job]\ndump_folder = \"{}\"\n[model]\ndim = 64\nn_layers = 2\n[training]\n"
                                  "seq_len = 64\nlocal_batch_size = 4\nsteps = {}\nthreads = 2\n[parallelism]\n"
                                  "data_parallel_shard_degree = 2\n[checkpoint]\ninterval = {}\n"
                                  "keep_latest_k = 2\n[data]\npath = \"data\"\n",
                                  name, steps, interval));
  }
  Path toml(const std::string& name) const { return scratch / (name + ".toml"); }
  Path folder(const std::string& name) const { return scratch / name; }

  // Starts the first job of a run and returns its number.
  std::string submit(const std::string& name, const std::string& options = {}) {
    const bool own = options.find("--cluster") != std::string::npos;
    const std::string cluster = own ? "" : "--cluster " + toml("cluster").string();
    const CommandResult result = run_hearth(fmt::format("submit {} {} {}", toml(name).string(), cluster, options));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return newest_job(read_starts(folder(name)));
  }
  RunState state(const std::string& name) { return run_status(folder(name)).state; }
  // Waits until the run is done. False if it stops, or after a quarter of an hour.
  bool gets_done(const std::string& name) {
    comes_true([&] { return state(name) == RunState::kDone || state(name) == RunState::kStopped; });
    return state(name) == RunState::kDone;
  }
  bool is_at(const std::string& name, int64_t step) {
    const auto records = metrics::read_metrics(folder(name) / "metrics.jsonl");
    return !records.empty() && records.back().step >= step;
  }
  bool has_checkpoint(const std::string& name) { return !checkpoint::list_steps(folder(name) / "checkpoints").empty(); }
  // What the jobs of a run printed.
  std::string output(const std::string& name) {
    std::string text;
    for (const std::string& file : list_folder(folder(name) / "logs"))
      if (file.starts_with("job-")) text += read_file(folder(name) / "logs" / file);
    return text + "\n" + read_file(starts_file(folder(name)));
  }
  std::vector<std::string> reasons(const std::string& name) {
    std::vector<std::string> all;
    for (const StartEvent& e : read_starts(folder(name)))
      if (e.name == "end") all.push_back(e.why);
    return all;
  }

  // Losses of all steps, and every byte of the last checkpoint, by its checksums.
  void expect_same_run(const std::string& name, const std::string& undisturbed) {
    const auto got = metrics::read_metrics(folder(name) / "metrics.jsonl");
    const auto want = metrics::read_metrics(folder(undisturbed) / "metrics.jsonl");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i].loss, want[i].loss) << "step " << want[i].step;
    const auto items = [this](const std::string& run) {
      const Path checkpoints = folder(run) / "checkpoints";
      const Path file =
          checkpoints / fmt::format("step-{:08}", checkpoint::list_steps(checkpoints).back()) / "hearth.json";
      return checkpoint::parse_manifest(read_file(file), file).items;
    };
    const auto mine = items(name), theirs = items(undisturbed);
    ASSERT_EQ(mine.size(), theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i].name, theirs[i].name);
      EXPECT_EQ(mine[i].checksum, theirs[i].checksum) << mine[i].name;
    }
  }

  test::ScratchFolder scratch;
};

constexpr int64_t kSteps = 1500;
constexpr int64_t kInterval = 100;

// The run that the others are compared with, in one piece.
class ComparedRuns : public Runs {
 protected:
  void train_undisturbed(int64_t steps = kSteps) {
    write_run("undisturbed", steps, kInterval);
    const CommandResult result = run_hearth("train " + toml("undisturbed").string());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(state("undisturbed"), RunState::kDone);
  }
  // SIGKILL of the newest process that trains this run.
  void kill_a_rank(const std::string& name) {
    const CommandResult found =
        test::run_command(fmt::format("pgrep --newest --full '[h]earth-train train {}'", toml(name).string()));
    ASSERT_EQ(found.exit_code, 0) << found.output;
    ASSERT_EQ(::kill(std::stoi(found.output), SIGKILL), 0);
  }
};

class SlurmRuns : public ComparedRuns {
 protected:
  void SetUp() override {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    cluster.emplace();
  }
  std::optional<Cluster> cluster;
};

}  // namespace hearth::cluster
