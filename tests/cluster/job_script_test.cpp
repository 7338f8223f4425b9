// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/environment.h"

namespace hearth::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

JobScript script_of(const std::string& cluster) {
  JobScript job;
  job.cluster = read_cluster_file(test::source_path("configs/clusters/" + cluster + ".toml"), cluster);
  job.command = "hearth submit run.toml";
  job.hearth = "/opt/hearth/bin/hearth";
  job.run_file = "/home/me/it's a run.toml";
  job.run = "/scratch/runs/one";
  job.checkpoints = "/scratch/runs/one/checkpoints";
  job.sets = {"training.steps=10", "job.description=two words"};
  job.nodes = 64;
  return job;
}

TEST(JobScripts, AskForWhatTheClusterFileSays) {
  JobScript job = script_of("frontier");
  job.cluster.account = "ABC123";
  const std::string text = job_script(job);
  for (const char* line :
       {"#SBATCH --job-name=one\n", "#SBATCH --account=ABC123\n", "#SBATCH --partition=batch\n", "#SBATCH --nodes=64\n",
        "#SBATCH --ntasks-per-node=8\n", "#SBATCH --cpus-per-task=7\n", "#SBATCH --gpus-per-node=8\n",
        "#SBATCH --time=02:00:00\n", "#SBATCH --signal=B:USR2@600\n", "#SBATCH --requeue\n",
        "#SBATCH --open-mode=append\n", "#SBATCH --output=/scratch/runs/one/logs/job-%j.log\n",
        "module load PrgEnv-gnu rocm/6.3.1 craype-accel-amd-gfx90a\n", "export NCCL_SOCKET_IFNAME=hsn0\n",
        "export SRUN_CPUS_PER_TASK=7\n"})
    EXPECT_THAT(text, HasSubstr(line));
  // The errors of the ranks name their start, and those of the script do not.
  EXPECT_THAT(text, HasSubstr("export HEARTH_SPEAKER='the job'\\''s script' "));
  EXPECT_THAT(text, HasSubstr("start_ranks() { HEARTH_SPEAKER=\"start $start\" exec srun --kill-on-bad-exit=0 "
                              "--wait=60 --nodes=\"$SLURM_NNODES\" "
                              "--ntasks=$((SLURM_NNODES * 8)) --ntasks-per-node=8 --cpu-bind=threads"));
  EXPECT_THAT(text, HasSubstr("/opt/hearth/bin/hearth train '/home/me/it'\\''s a run.toml' --set training.steps=10 "
                              "--set 'job.description=two words'; }"));
  // A look at each node after a failure, and whose the ranks are.
  EXPECT_THAT(text, HasSubstr("--ntasks-per-node=1 /opt/hearth/bin/hearth job node \"$run\" --job \"$job\" --run-file "
                              "'/home/me/it'\\''s a run.toml' --set training.steps=10"));
  EXPECT_THAT(text, HasSubstr("export HEARTH_JOB=$job "));
  EXPECT_THAT(text, Not(HasSubstr("--qos")));
  // The options come before the first command, where sbatch stops reading them.
  EXPECT_LT(text.rfind("#SBATCH"), text.find("\nrun="));
}

TEST(JobScripts, TakeOtherLaunchersContainersAndWaysToAsk) {
  JobScript job = script_of("slurm_nvidia");
  job.cluster.gpu_option = "gres";
  job.cluster.container = {"apptainer", "exec", "--nv", "my image.sif"};
  job.cluster.launcher = "mpirun";
  job.cluster.requeue = false;
  const std::string text = job_script(job);
  EXPECT_THAT(text, HasSubstr("#SBATCH --gres=gpu:8\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --no-requeue\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "exec mpirun -n $((SLURM_NNODES * 8)) apptainer exec --nv 'my image.sif' /opt/hearth/bin/hearth train"));
}

TEST(JobScripts, NeedNoSlurmOnOneMachine) {
  JobScript job = script_of("local");
  job.nodes = 1;
  job.cluster.ranks_per_node = 4;
  const std::string text = job_script(job);
  for (const char* word : {"SBATCH", "srun", "scontrol", "sbatch", "SLURM"}) EXPECT_THAT(text, Not(HasSubstr(word)));
  EXPECT_THAT(text, HasSubstr("--ranks 4; }"));
}

TEST(JobScripts, QuoteForSbatchToo) {
  JobScript job = script_of("slurm_cpu");
  job.run = "/scratch/it's 50%j";
  job.cluster.partition = "two words";
  job.command = "hearth submit run.toml --set 'job.description=a\nb'";
  const std::string text = job_script(job);
  // A % of its own is written twice: the others stand for the job's number and so on.
  EXPECT_THAT(text, HasSubstr("#SBATCH --output='/scratch/it'\\''s 50%%j/logs/job-%j.log'\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --partition='two words'\n"));
  EXPECT_THAT(text, HasSubstr("# Written by: hearth submit run.toml --set 'job.description=a\n# b'\n"));
}

// What bash itself makes of the words.
TEST(JobScripts, QuoteWordsAsBashReadsThem) {
  for (const std::string word :
       {"plain", "", "two words", "it's", "$HOME", "a\"b", "back\\slash", "`id`", "$(id)", "*", "a;b"}) {
    EXPECT_EQ(test::run_command("bash -c " + shell_word("printf %s " + shell_word(word))).output, word);
  }
  const auto value = [](const std::string& text) {
    return test::run_command("NAME=x bash -c " + shell_word("V=" + shell_value(text) + "; printf %s \"$V\"")).output;
  };
  EXPECT_EQ(value("/a:$NAME:${NAME}"), "/a:x:x");
  EXPECT_EQ(value("$NAME \"q\" `id` $(id) \\n"), "x \"q\" `id` $(id) \\n");
  EXPECT_EQ(value("no variable `id`"), "no variable `id`");
}

// Bash before 5.1 writes here-strings and here-documents into /tmp, which may be full; newer ones do if they are long.
TEST(JobScripts, NeedNoTemporaryFiles) {
  for (const char* cluster : {"frontier", "local", "slurm_cpu", "slurm_nvidia"})
    for (const bool preflight : {false, true}) {
      JobScript job = script_of(cluster);
      job.preflight = preflight;
      EXPECT_THAT(job_script(job), Not(HasSubstr("<<"))) << cluster;
    }
}

TEST(JobScripts, AreCleanToShellcheck) {
  if (test::run_command("shellcheck --version").exit_code != 0) GTEST_SKIP() << "shellcheck is not here";
  const test::ScratchFolder scratch;
  for (const char* cluster : {"frontier", "local", "slurm_cpu", "slurm_nvidia"}) {
    for (const bool preflight : {false, true}) {
      JobScript job = script_of(cluster);
      job.preflight = preflight;
      job.cluster_argument = cluster;
      write_file_atomic(scratch / "job.sh", job_script(job));
      const test::CommandResult result = test::run_command("shellcheck " + (scratch / "job.sh").string());
      EXPECT_EQ(result.exit_code, 0) << cluster << "\n" << result.output;
    }
  }
}

}  // namespace
}  // namespace hearth::cluster
