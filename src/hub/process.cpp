// SPDX-License-Identifier: Apache-2.0
#include "hub/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include "base/error.h"
#include "base/program.h"
#include "base/text.h"

namespace hearth::hub {
namespace {

using ProcessClock = std::chrono::steady_clock;

constexpr int kTickMs = 200;
constexpr auto kPatience = std::chrono::seconds(5);  // between a request to end and SIGKILL
constexpr size_t kMostOutput = size_t{1} << 30;      // of one program: a listing of millions of files

volatile std::sig_atomic_t interrupted_by = 0;

void note_interrupt(int number) { interrupted_by = number; }

// From construction to destruction SIGINT and SIGTERM are noted and end nothing.
class NotedInterrupts {
 public:
  NotedInterrupts() {
    interrupted_by = 0;
    struct sigaction noted {};
    noted.sa_handler = note_interrupt;
    ::sigemptyset(&noted.sa_mask);
    ::sigaction(SIGINT, &noted, &before_[0]);
    ::sigaction(SIGTERM, &noted, &before_[1]);
  }
  ~NotedInterrupts() {
    ::sigaction(SIGINT, &before_[0], nullptr);
    ::sigaction(SIGTERM, &before_[1], nullptr);
  }
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;

 private:
  std::array<struct sigaction, 2> before_{};
};

struct Pipe {
  Descriptor read_end, write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// The environment of this process with `settings` in place of those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string name(text.substr(0, text.find('=') + 1));
    const auto replaces = [&](const std::string& setting) { return setting.starts_with(name); };
    if (std::none_of(settings.begin(), settings.end(), replaces)) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and execve another thread may hold any lock: only system calls.
[[noreturn]] void become(const char* program, char** words, char** environment, const Pipe& output, const Pipe& errors,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output.write_end.number(), STDOUT_FILENO);
  ::dup2(errors.write_end.number(), STDERR_FILENO);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::execve(program, words, environment);
  ::_exit(127);
}

// Appends what is there, and closes a stream that has ended. Returns whether it is open.
bool take(Descriptor& stream, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(stream.number(), buffer.data(), buffer.size());
  if (n > 0 && text.size() < kMostOutput) text.append(buffer.data(), static_cast<size_t>(n));
  if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) return true;
  stream.close();
  return false;
}

// Waits for data of either stream, or for a tick.
void take_output(Pipe& output, Pipe& errors, Outcome& outcome) {
  std::array<pollfd, 2> ends = {{{output.read_end.number(), POLLIN, 0}, {errors.read_end.number(), POLLIN, 0}}};
  if (::poll(ends.data(), ends.size(), kTickMs) <= 0) return;
  if (ends[0].revents != 0) take(output.read_end, outcome.output);
  if (ends[1].revents != 0) take(errors.read_end, outcome.errors);
}

}  // namespace

Outcome run_process(const Process& process) {
  HEARTH_CHECK(!process.words.empty());
  Pipe output = make_pipe(), errors = make_pipe();
  const NotedInterrupts interrupts;
  std::vector<std::string> words = process.words, settings = environment_with(process.settings);
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(settings);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw system_error(fmt::format("cannot start {}", process.words.front()), errno);
  if (child == 0)
    become(words.front().c_str(), const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), output, errors,
           parent);
  ::setpgid(child, child);  // here too: the child may not have come to it
  output.write_end.close();
  errors.write_end.close();

  Outcome outcome;
  int status = 0, signal_number = 0;
  const auto start = ProcessClock::now();
  std::optional<ProcessClock::time_point> kill_at;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    take_output(output, errors, outcome);
    if (process.while_it_runs) process.while_it_runs();
    const auto now = ProcessClock::now();
    const bool is_late =
        process.timeout_s > 0 && std::chrono::duration<double>(now - start).count() > process.timeout_s;
    if (!kill_at && (interrupted_by != 0 || is_late)) {
      signal_number = interrupted_by;
      outcome.timed_out = interrupted_by == 0;
      ::kill(-child, SIGTERM);
      kill_at = now + kPatience;
    }
    if (kill_at && now > *kill_at) ::kill(-child, SIGKILL);
  }
  ::kill(-child, SIGKILL);  // what it left behind; usually nothing
  while (take(output.read_end, outcome.output)) {
  }
  while (take(errors.read_end, outcome.errors)) {
  }
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (signal_number == 0) signal_number = interrupted_by;
  if (signal_number != 0)
    throw Error(ExitCode::kAskedToLeave,
                fmt::format("interrupted by {}", signal_number == SIGINT ? "SIGINT" : "SIGTERM"), {},
                "run the command again: it goes on where it stopped");
  return outcome;
}

Path find_program(std::string_view name) {
  for (const std::string& folder : split(environment_variable("PATH"), ':')) {
    Path candidate = Path(folder) / name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate))
      return candidate;
  }
  return {};
}

}  // namespace hearth::hub
