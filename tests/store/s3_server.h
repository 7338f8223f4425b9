// SPDX-License-Identifier: Apache-2.0
// A real S3 server behind a proxy that makes faults (s3_server.py). This process, and programs that it starts, use it
// for paths s3://bucket/...
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/program.h"
#include "support/environment.h"
#include "support/text_file.h"

namespace hearth::test {

class S3Server {
 public:
  // One for all tests of a process: the store is opened once.
  static S3Server& get() {
    static S3Server server;
    return server;
  }

  // The tests of a process use moto's server in place of rclone's if HEARTH_TEST_STORE is "moto".
  static bool wants_moto() {
    const char* wanted = std::getenv("HEARTH_TEST_STORE");
    return wanted != nullptr && std::string(wanted) == "moto";
  }
  static bool has_server() {
    return path_exists(Path(oracle_python()).parent_path() / (wants_moto() ? "moto_server" : "rclone"));
  }

  // What the server has, without our client.
  std::optional<std::string> content(const std::string& key) const {
    if (!is_moto_) {
      const Path file = scratch_ / "objects" / "bucket" / key;
      return path_exists(file) ? std::optional(read_file(file)) : std::nullopt;
    }
    const CommandResult result = run_command(get_command() + fmt::format("'{}'", key));
    return result.exit_code == 9 ? std::nullopt : std::optional(result.output);
  }
  // A folder of objects, on the disk.
  Path folder(const std::string& key) {
    if (!is_moto_) return scratch_ / "objects" / "bucket" / key;
    const Path into = scratch_ / fmt::format("got-{}", ++changes_);
    EXPECT_EQ(run_command(get_command() + fmt::format("'{}/' {}", key, into.string())).exit_code, 0);
    return into;
  }

  Path operator/(const std::string& name) const { return scratch_ / name; }

  // See s3_server.py.
  void set_faults(const std::string& lines) {
    write_text(scratch_ / "faults.new", fmt::format("# {}\n{}\n", ++changes_, lines));
    rename_path(scratch_ / "faults.new", scratch_ / "faults");
  }
  // Does the requests with the fault "late".
  void do_late_requests() {
    write_text(scratch_ / "late", "");
    while (path_exists(scratch_ / "late")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::vector<std::string> take_log() {
    std::vector<std::string> lines;
    std::string line;
    for (const char c : path_exists(scratch_ / "log") ? read_file(scratch_ / "log") : "") {
      if (c != '\n') {
        line += c;
      } else {
        lines.push_back(std::move(line));
        line.clear();
      }
    }
    remove_file(scratch_ / "log");
    return lines;
  }

  S3Server(const S3Server&) = delete;

 private:
  S3Server() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string script = source_path("tests/store/s3_server.py"), folder = scratch_.path().string();
    const std::string kind = is_moto_ ? "moto" : "rclone", python = oracle_python();
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[0], 0);
      ::execlp("python3", "python3", script.c_str(), kind.c_str(), python.c_str(), folder.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    input_ = ends[1];
    for (int i = 0; i < 15000 && !path_exists(scratch_ / "port"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::string endpoint = "http://127.0.0.1:" + read_file(scratch_ / "port");
    ::setenv("AWS_ENDPOINT_URL", endpoint.c_str(), 1);
    ::setenv("AWS_ACCESS_KEY_ID", "testing", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    ::setenv("AWS_MAX_ATTEMPTS", "2", 1);
    ::setenv("HEARTH_S3_REQUEST_TIMEOUT", "2", 1);  // a machine with much to do takes its time
    ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    ::setenv("HEARTH_CACHE", (scratch_ / "cache").c_str(), 1);
    for (const char* name : {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL_S3"}) ::unsetenv(name);
  }
  ~S3Server() {
    ::close(input_);
    ::waitpid(process_, nullptr, 0);
  }

  std::string get_command() const {
    return fmt::format("python3 {} {} ", source_path("tests/store/s3_get.py"), read_file(scratch_ / "server_port"));
  }
  const bool is_moto_ = wants_moto();
  ScratchFolder scratch_;
  pid_t process_ = -1;
  int input_ = -1;
  int changes_ = 0;
};

// Tests with a store start with this.
#define HEARTH_NEEDS_STORE()                                                             \
  do {                                                                                   \
    HEARTH_NEEDS_ORACLE();                                                               \
    if (!::hearth::beside_program("libhearth_s3.so")) GTEST_SKIP() << "no libhearth_s3"; \
    if (!::hearth::test::S3Server::has_server()) {                                       \
      if (std::getenv("CI") != nullptr) FAIL() << "no server of S3";                     \
      GTEST_SKIP() << "no server of S3: run scripts/setup.sh --oracle";                  \
    }                                                                                    \
    ::hearth::test::S3Server::get().set_faults("");                                      \
  } while (false)

}  // namespace hearth::test
