// SPDX-License-Identifier: Apache-2.0
// A training in its own process, which tests can signal and kill.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "config/load.h"
#include "support/environment.h"
#include "support/failpoint.h"
#include "tiny_run.h"

namespace hearth::train {

inline std::string train_binary() { return std::string(HEARTH_BIN_DIR) + "/hearth-train"; }

// Writes the run file next to the run folder: relative paths then have the same base folder as in `config`.
inline Path write_run_file(const config::RunConfig& config) {
  const Path path = config.base_folder / (config.job.dump_folder + ".toml");
  write_file_atomic(path, config::to_toml(config));
  return path;
}

class RunProcess {
 public:
  // `failing`: "", or the disk call that fails (support/failpoint.h). Output goes to LOG.
  RunProcess(const std::vector<std::string>& arguments, const Path& log, const std::string& failing = "",
             const std::string& program = train_binary()) {
    std::vector<std::string> words = {program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables;
    if (!failing.empty()) variables = failpoint::environment(failing);
    pid_ = ::fork();
    if (pid_ != 0) return;
    // Between fork and exec: only calls that a signal handler may make, and putenv, because this process has one
    // thread.
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    for (std::string& variable : variables) ::putenv(variable.data());
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~RunProcess() {
    if (running()) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  void signal(int number) { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }
  // The processes of the ranks, in their order.
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> children;
    std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", pid_));
    for (pid_t child = 0; list >> child;) children.push_back(child);
    return children;
  }
  // Exit code, or 128 + signal. A process that does not end within ten minutes fails the test, and is killed.
  int wait() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (running()) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "process " << pid_ << " does not end";
        signal(SIGKILL);
        reap(0);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return exit_code_;
  }
  bool running() {
    if (!ended_) reap(WNOHANG);
    return !ended_;
  }

 private:
  void reap(int flags) {
    int status = 0;
    if (::waitpid(pid_, &status, flags) != pid_) return;
    ended_ = true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
};

// Waits until `condition` holds or the process has ended. Returns false if it has ended.
template <typename Condition>
bool wait_until(RunProcess& process, Condition condition) {
  while (!condition()) {
    if (!process.running()) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline int64_t steps_logged(const config::RunConfig& config) {
  const auto records = metrics::read_metrics(config.run_folder() / "metrics.jsonl");
  return records.empty() ? -1 : records.back().step;
}

}  // namespace hearth::train
