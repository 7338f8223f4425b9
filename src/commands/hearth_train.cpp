// SPDX-License-Identifier: Apache-2.0
#include "commands/hearth_train.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/program.h"
#include "base/text.h"
#include "hub/process.h"

namespace hearth::commands {
namespace {

constexpr const char* kName = "hearth-train";

// Empty if it is missing.
Path find_hearth_train() {
  Path beside = own_program().parent_path() / kName;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  return hub::find_program(kName);
}

// A waiting thread sleeps and does not spin. The quickstart's step, two cores, in alternation: on an idle machine 420
// ms asleep and 406 spinning; with a load of 8, 877 and 1782 ms asleep, 2976 and 3214 spinning. OpenMP reads the
// setting before main() starts: it must be set here.
void let_waiting_threads_sleep() { ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0); }

struct Output {
  int status = -1;  // as waitpid returns it
  std::string text;
};

// Runs a command of the shell to its end and reads its stdout. Its stderr is discarded.
Output output_of(const std::string& command) {
  Output output;
  std::FILE* const pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.text.append(buffer.data(), n);
  output.status = ::pclose(pipe);
  return output;
}

// Throws user_error if the dynamic loader does not find a shared library of it. It is asked as `ldd` does: no code
// runs.
void require_libraries(const Path& binary) {
  std::vector<std::string> missing;
  const Output traced = output_of("LD_TRACE_LOADED_OBJECTS=1 " + shell_word(binary.string()));
  for (const std::string& line : split_lines(traced.text)) {
    if (line.find("=> not found") == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t");
    missing.push_back(line.substr(start, line.find(' ', start) - start));
  }
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
  std::string command = shell_word(binary.string());
  for (const std::string& word : words) command += " " + shell_word(word);
  const Output output = output_of(command);
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
  for (std::string& word : split(line.command(), ' ')) words.push_back(std::move(word));  // "bench step" is two words
  words.insert(words.end(), line.arguments().begin(), line.arguments().end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  let_waiting_threads_sleep();
  ::execv(binary.c_str(), arguments.data());
  throw system_error(fmt::format("cannot run {}", binary.string()), errno);
}

}  // namespace hearth::commands
