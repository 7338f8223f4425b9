// SPDX-License-Identifier: Apache-2.0
// References in Python: one server per test binary runs their scripts. See support/python_server.py.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "support/environment.h"

namespace hearth::test {

// The oracle's Python with the libraries that earlier scripts of this process imported. One thread at a time.
class PythonServer {
 public:
  static PythonServer& shared() {
    static PythonServer server;
    return server;
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;

  CommandResult run(std::string_view words) {
    fmt::print(requests_, "{}\n{}", words.size(), words);
    std::fflush(requests_);
    CommandResult result{};
    size_t length = 0;
    char newline = 0;
    const bool answered = std::fscanf(replies_, "%d %zu%c", &result.exit_code, &length, &newline) == 3;
    result.output.resize(length);
    if (!answered || std::fread(result.output.data(), 1, length, replies_) != length)
      return {127, "the server for Python ended"};
    return result;
  }

 private:
  PythonServer() {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
    const std::string python = oracle_python(), script = source_path("tests/support/python_server.py");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl(python.c_str(), python.c_str(), "-W", "ignore", script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    requests_ = ::fdopen(to[1], "w");
    replies_ = ::fdopen(from[0], "r");
  }
  // The server ends where its standard input ends.
  ~PythonServer() {
    std::fclose(requests_);
    std::fclose(replies_);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid_;
  std::FILE* requests_;
  std::FILE* replies_;
};

// Runs `words`, quoted as for a shell: SCRIPT ARGUMENT... or -c CODE. A SCRIPT that is not absolute is a path in the
// source tree.
inline CommandResult run_python(std::string_view words) {
  const bool relative = !words.starts_with('/') && !words.starts_with('-');
  return PythonServer::shared().run(relative ? source_path(std::string(words)) : std::string(words));
}

}  // namespace hearth::test
