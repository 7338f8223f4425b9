// SPDX-License-Identifier: Apache-2.0
// A stand-in for the Hub (hub_server.py) and the real client: `hearth` with this server in place of huggingface.co.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "support/hearth_command.h"
#include "support/text_file.h"

namespace hearth::hub {

class HubServer {
 public:
  HubServer() {
    make_folders(store());
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string script = test::source_path("tests/hub/hub_server.py"), folder = store().string();
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[0], 0);
      ::execlp("python3", "python3", script.c_str(), folder.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    input_ = ends[1];
    for (int i = 0; i < 15000 && !path_exists(store() / "port"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    port_ = read_file(store() / "port");
  }
  ~HubServer() {
    ::close(input_);
    ::waitpid(process_, nullptr, 0);
  }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  Path store() const { return scratch_ / "store"; }
  Path hub() const { return scratch_ / "hub"; }                                        // HEARTH_HUB
  Path repository(const std::string& name) const { return store() / "repos" / name; }  // "models/ORG/NAME"
  Path operator/(const std::string& name) const { return scratch_ / name; }

  void put(const std::string& repository_name, const std::string& file, std::string_view content) const {
    test::write_text(repository(repository_name) / file, content);
  }
  void put_card(const std::string& repository_name, std::string_view json) const {
    test::write_text(repository(repository_name + ".json"), json);
  }
  void set_faults(std::string_view lines) const { test::write_text(store() / "faults", lines); }
  // Requests so far, one a line.
  std::string log() const { return path_exists(store() / "log") ? read_file(store() / "log") : ""; }

  // `before`: settings, or another program that starts hearth.
  test::CommandResult hearth(const std::string& words, const std::string& before = {}) const {
    const std::string settings = fmt::format(
        "HF_ENDPOINT=http://127.0.0.1:{} HF_HUB_DISABLE_XET=1 HF_HOME={} HEARTH_HUB={} NO_PROXY=127.0.0.1 "
        "no_proxy=127.0.0.1 HF_TOKEN= {}",
        port_, (scratch_ / "home").string(), hub().string(), before);
    return test::run_hearth(words + " </dev/null", settings);
  }

 private:
  test::ScratchFolder scratch_;
  pid_t process_ = -1;
  int input_ = -1;
  std::string port_;
};

// Why the real client is not to be had, or an empty text. It is installed once, for all tests.
inline const std::string& client_problem() {
  static const std::string problem = [] {
    const HubServer server;
    server.put("models/o/first", "README.md", "x");
    const test::CommandResult result = server.hearth("fetch hf:o/first --yes");
    const bool is_missing = result.output.find("client of the Hub cannot be installed") != std::string::npos ||
                            result.output.find("there is no client of the Hub") != std::string::npos;
    return is_missing ? result.output : std::string();
  }();
  return problem;
}

#define HEARTH_NEEDS_HUB_CLIENT() \
  if (!::hearth::hub::client_problem().empty()) GTEST_SKIP() << ::hearth::hub::client_problem()

}  // namespace hearth::hub
