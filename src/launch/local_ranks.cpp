// SPDX-License-Identifier: Apache-2.0
#include "launch/local_ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace hearth::launch {
namespace {

using Clock = std::chrono::steady_clock;

// Rank 0 tells the others of a failure within this time; what still runs afterwards hangs.
constexpr auto kGrace = std::chrono::milliseconds(800);
constexpr std::array kForwarded = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

struct Child {
  int64_t rank;
  pid_t process;
  std::optional<int> status;  // of waitpid
  bool killed_by_us = false;

  bool runs() const { return !status; }
  bool killed() const { return status && WIFSIGNALED(*status) && !killed_by_us; }
  bool interrupted() const { return killed() && WTERMSIG(*status) == SIGINT; }
  int code() const { return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 0; }
  // A rank that was asked to leave has not failed.
  bool failed() const { return killed() || (code() != 0 && code() != static_cast<int>(ExitCode::kAskedToLeave)); }
};

// Blocks the signals that this waits for, and restores the mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGCHLD);
    for (const int number : kForwarded) ::sigaddset(&set_, number);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // The next signal; 0 after `wait`.
  int next(std::chrono::milliseconds wait) const {
    const timespec time{wait.count() / 1000, wait.count() % 1000 * 1000000};
    const int number = ::sigtimedwait(&set_, nullptr, &time);
    return number < 0 ? 0 : number;
  }

 private:
  sigset_t set_, before_;
};

void collect(std::vector<Child>& children) {
  int status = 0;
  for (pid_t process = 0; (process = ::waitpid(-1, &status, WNOHANG)) > 0;)
    for (Child& child : children)
      if (child.process == process) child.status = status;
}

void kill_the_rest(std::vector<Child>& children) {
  for (Child& child : children) {
    if (!child.runs()) continue;
    child.killed_by_us = true;
    ::kill(child.process, SIGKILL);
  }
}

// What the user asked for by signals. One Ctrl-C may come twice, from the terminal and from the process that started
// this one: within a second it counts once.
struct Asked {
  bool to_leave = false;
  bool to_end_now = false;
  std::optional<Clock::time_point> interrupt{};  // the first

  void take(int number) {
    to_leave |= number == SIGINT || number == SIGTERM || number == SIGUSR2;
    if (number != SIGINT) return;
    const Clock::time_point now = Clock::now();
    if (!interrupt) interrupt = now;
    to_end_now |= now - *interrupt >= std::chrono::seconds(1);
  }
};

void name_those_that_stay(const std::vector<Child>& children, std::chrono::milliseconds limit) {
  for (const Child& child : children)
    if (child.runs())
      log_error(
          "error: rank {} (process {}) does not end: it was killed {:.0f} s ago\n  why: it waits in the kernel, as for "
          "a file system or a device that does not answer\n  fix: find in the kernel's log what is stuck; the process "
          "ends once that answers, or with a restart of this host",
          child.rank, child.process, std::chrono::duration<double>(limit).count());
}

void name_those_that_hang(const std::vector<Child>& children, std::chrono::milliseconds limit) {
  for (const Child& child : children)
    if (child.runs())
      log_error(
          "error: rank {} (process {}) has not ended, and another rank has {:.0f} s ago\n  why: it hangs at its end, "
          "as in a driver or a library\n  fix: it is killed; the same command says what is left to do",
          child.rank, child.process, std::chrono::duration<double>(limit).count());
}

// Waits for all; kills those that a failure, or the user, leaves behind, and those that stay long after another ended.
// SIGKILL does not end a process whose call of the kernel hangs: it is left behind after the limit.
Asked supervise(std::vector<Child>& children, const BlockedSignals& signals, std::chrono::milliseconds kill_limit) {
  std::optional<Clock::time_point> deadline, given_up, first_end;
  Asked asked;
  while (std::ranges::any_of(children, &Child::runs)) {
    const int number = signals.next(std::chrono::milliseconds(deadline ? 20 : 1000));
    if (std::ranges::find(kForwarded, number) != kForwarded.end()) {
      asked.take(number);
      for (const Child& child : children)
        if (child.runs()) ::kill(child.process, number);
    }
    collect(children);
    if (!deadline && std::ranges::any_of(children, &Child::failed)) deadline = Clock::now() + kGrace;
    if (!first_end && !std::ranges::all_of(children, &Child::runs)) first_end = Clock::now();
    if (!deadline && first_end && Clock::now() > *first_end + kill_limit) {
      name_those_that_hang(children, kill_limit);
      deadline = Clock::now();
    }
    if (!asked.to_end_now && (!deadline || Clock::now() < *deadline)) continue;
    kill_the_rest(children);
    if (!given_up) given_up = Clock::now() + kill_limit;
    if (Clock::now() < *given_up) continue;
    name_those_that_stay(children, kill_limit);
    break;
  }
  return asked;
}

int outcome(const std::vector<Child>& children, const Asked& asked) {
  const Child& first = children.front();
  // A rank without a handler, which has not begun to train, ends at the first Ctrl-C.
  if (asked.to_end_now || std::ranges::any_of(children, &Child::interrupted)) {
    log_error("ended by Ctrl-C, without a save: the run goes on from its newest checkpoint");
    return 128 + SIGINT;
  }
  // Rank 0 has named what it saw, unless it was killed itself.
  if (first.killed())
    log_error(
        "error: rank 0 (process {}) was killed by signal {} ({})\n  fix: see the kernel's log for a lack of "
        "memory; the run goes on from its last checkpoint",
        first.process, WTERMSIG(*first.status), ::strsignal(WTERMSIG(*first.status)));
  if (first.code() != 0) return first.code();
  for (const Child& child : children)
    if (child.code() != 0) return child.code();
  const auto killed = [](const Child& child) { return child.status && WIFSIGNALED(*child.status); };
  return std::any_of(children.begin(), children.end(), killed) ? static_cast<int>(ExitCode::kHardware) : 0;
}

}  // namespace

LocalEnd run_local_ranks(int64_t ranks, const std::function<int(const LaunchedRank&)>& rank_main,
                         std::chrono::milliseconds kill_limit) {
  const pid_t parent = ::getpid();
  const auto now = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  const std::string name = fmt::format("hearth-{}-{}-{:x}", ::getuid(), parent, now);
  std::fflush(nullptr);
  const BlockedSignals signals;
  std::vector<Child> children;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // without a parent: save and leave
      signals.restore();
      if (::getppid() != parent) ::_exit(static_cast<int>(ExitCode::kHardware));
      const int code = rank_main({.rank = rank,
                                  .size = ranks,
                                  .launcher = "hearth",
                                  .address = "unix:" + name,
                                  .key = name,
                                  .supervised = true});
      std::fflush(nullptr);
      std::_Exit(code);
    }
    if (process < 0) {
      const int error = errno;
      for (const Child& child : children) ::kill(child.process, SIGKILL);
      throw system_error(fmt::format("cannot start rank {} of {}", rank, ranks), error);
    }
    children.push_back({rank, process, std::nullopt});
  }
  const Asked asked = supervise(children, signals, kill_limit);
  return {.code = outcome(children, asked), .asked_to_leave = asked.to_leave};
}

}  // namespace hearth::launch
