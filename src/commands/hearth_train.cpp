#include "commands/hearth_train.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/program.h"
#include "base/text.h"

namespace hearth::commands {
namespace {

constexpr const char* kName = "hearth-train";

// Empty if it is missing.
Path find_hearth_train() {
  const Path beside = own_program().parent_path() / kName;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "";
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const Path candidate = Path(folders.substr(0, end)) / kName;
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.erase(0, end + 1);
  }
  return {};
}

// A waiting thread sleeps and does not spin. The quickstart's step, two cores, in alternation: on an idle machine 420
// ms asleep and 406 spinning; with a load of 8, 877 and 1782 ms asleep, 2976 and 3214 spinning. OpenMP reads the
// setting before main() starts: it must be set here.
void let_waiting_threads_sleep() { ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0); }

struct Output {
  int status = -1;  // as waitpid returns it
  std::string text;
};

// Runs a program to its end, with these settings in its environment, and reads its stdout. Its stderr is discarded.
Output output_of(const Path& binary, std::vector<std::string> words, std::vector<std::string> settings) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, ends[0]);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = kName;
  std::vector<char*> arguments = {name.data()}, environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& setting : settings) environment.push_back(setting.data());
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, binary.c_str(), &actions, nullptr, arguments.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Output output;
  std::array<char, 4096> buffer{};
  for (ssize_t n; error == 0 && (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    output.text.append(buffer.data(), static_cast<size_t>(n));
  ::close(ends[0]);
  if (error == 0) ::waitpid(child, &output.status, 0);
  return output;
}

// Its shared libraries that the dynamic loader does not find, as `ldd` asks it: no code runs.
std::vector<std::string> missing_libraries(const Path& binary) {
  std::vector<std::string> missing;
  for (const std::string& line : split_lines(output_of(binary, {}, {"LD_TRACE_LOADED_OBJECTS=1"}).text)) {
    if (line.find("=> not found") == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t");
    missing.push_back(line.substr(start, line.find(' ', start) - start));
  }
  return missing;
}

void require_libraries(const Path& binary) {
  const std::vector<std::string> missing = missing_libraries(binary);
  if (missing.empty()) return;
  throw user_error(fmt::format("{} lacks {}", binary.string(), join(missing)),
                   "LibTorch is not where it was when hearth-train was built",
                   "run scripts/setup.sh and build again, or put LibTorch's lib folder into LD_LIBRARY_PATH");
}

}  // namespace

bool has_hearth_train() { return !find_hearth_train().empty(); }

std::string output_of_hearth_train(const std::vector<std::string>& words) {
  const Path binary = find_hearth_train();
  if (binary.empty()) return {};
  let_waiting_threads_sleep();
  const Output output = output_of(binary, words, {});
  return WIFEXITED(output.status) && WEXITSTATUS(output.status) == 0 ? output.text : "";
}

void become_hearth_train(const CommandLine& line) {
  const Path binary = find_hearth_train();
  if (binary.empty())
    throw user_error("hearth-train is not there",
                     fmt::format("neither next to hearth in {} nor in PATH", own_program().parent_path().string()),
                     "build it: cmake --preset release && ninja -C build/release hearth-train");
  require_libraries(binary);
  std::vector<std::string> words = {kName};
  const std::string_view command = line.command();
  for (size_t start = 0; start < command.size();) {  // "bench step" is two words
    const size_t end = std::min(command.find(' ', start), command.size());
    words.emplace_back(command.substr(start, end - start));
    start = end + 1;
  }
  words.insert(words.end(), line.arguments().begin(), line.arguments().end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  let_waiting_threads_sleep();
  ::execv(binary.c_str(), arguments.data());
  throw system_error(fmt::format("cannot run {}", binary.string()), errno);
}

}  // namespace hearth::commands
