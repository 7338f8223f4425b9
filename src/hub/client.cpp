// SPDX-License-Identifier: Apache-2.0
#include "hub/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/text.h"
#include "hub/process.h"

namespace hearth::hub {
namespace {

constexpr const char* kPinnedVersion = "2.4.0";
constexpr int kLeastMajor = 2;              // the first whose listings have hashes
constexpr double kAskTimeoutS = 900;        // a listing of a million files
constexpr double kInstallTimeoutS = 600;    //
constexpr std::array kPausesS = {1, 3, 9};  // before the second, third and fourth attempt

// No questions, no colours, no traffic besides the command's own.
std::vector<std::string> client_settings() {
  return {"HF_HUB_DISABLE_UPDATE_CHECK=1", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "NO_COLOR=1",
          "PYTHONUNBUFFERED=1"};
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](auto word) { return text.find(word) != std::string_view::npos; });
}

// The line that says most: the client's own "Error: ...", or else the last of a traceback.
std::string reason_in(const std::string& errors) {
  std::string last;
  for (const std::string& line : split_lines(errors)) {
    if (line.starts_with("Hint: ") || line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line.starts_with("Error: ")) return line.substr(7);
    last = line;
  }
  return last.empty() ? "it printed no reason" : last;
}

// What is wrong if another attempt would not help; empty after an error of the network or of the server.
std::optional<Error> lasting_error(const Outcome& outcome, const std::string& about) {
  const std::string& text = outcome.errors;
  const std::string reason = reason_in(text);
  if (has_any(text,
              {"'401 ", "'403 ", "401 Client Error", "403 Client Error", "Access denied", "Access to",
               "requires approval", "Invalid credentials", "Invalid user token", "Invalid username", "Not logged in"}))
    return user_error(fmt::format("the Hub refuses access to {}", about), reason,
                      environment_variable("HF_TOKEN").empty()
                          ? "set HF_TOKEN to a token of yours; where the owner asks for it, accept the conditions on "
                            "the repository's page first"
                          : "check that HF_TOKEN is valid, may do this, and that you accepted the repository's "
                            "conditions on its page");
  if (has_any(text, {"'404 ", "404 Client Error", "not found", "does not exist"}))
    return user_error(fmt::format("{} is not on the Hub", about), reason,
                      "check the name; of a private repository, set HF_TOKEN");
  if (has_any(text, {"No such option", "No such command", "Usage: hf"}))
    return user_error("the client of the Hub is too old or too new", reason,
                      fmt::format("unset HEARTH_HF, or install huggingface_hub {}", kPinnedVersion));
  if (has_any(text, {"No space left on device", "Disk quota exceeded"}))
    return Error(ExitCode::kHardware, fmt::format("the disk is full: {} cannot be written", about), reason,
                 "make space, then run the command again");
  if (has_any(text, {"HF_HUB_OFFLINE", "offline mode", "Offline mode"}))
    return user_error("HF_HUB_OFFLINE is set", "then nothing can be asked of the Hub", "unset it, or give --offline");
  return std::nullopt;
}

// The folder for dependencies: that of the source tree this program was built in; of an installed program, a folder in
// the user's cache.
Path dependencies_folder() {
  if (const std::string own = environment_variable("HEARTH_DEPS"); !own.empty()) return std::filesystem::absolute(own);
  Path folder = own_program().parent_path();
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    // A virtual environment knows its own path: the real one, not that of a link.
    if (path_exists(folder / ".deps")) return std::filesystem::canonical(folder / ".deps");
  }
  const std::string home = environment_variable("HOME");
  if (home.empty())
    throw user_error("there is no folder to install the client of the Hub into", "HOME is not set", "set HEARTH_DEPS");
  return Path(home) / ".cache" / "hearth" / "deps";
}

bool is_new_enough(const Path& program) {
  const Outcome outcome = run_process({{program.string(), "version"}, client_settings(), 60});
  const size_t digit = outcome.output.find_first_of("0123456789");
  return outcome.exit_code == 0 && digit != std::string::npos &&
         std::atoi(outcome.output.c_str() + digit) >= kLeastMajor;
}

void run_install(const std::vector<std::string>& words) {
  const Outcome outcome = run_process({words, {}, kInstallTimeoutS});
  if (outcome.exit_code == 0) return;
  throw Error(ExitCode::kHardware, "the client of the Hub cannot be installed",
              outcome.timed_out ? fmt::format("pip took more than {} s", kInstallTimeoutS)
                                : reason_in(outcome.errors.empty() ? outcome.output : outcome.errors),
              fmt::format("check the network and pip's index, or install huggingface_hub {} yourself, so that hf is in "
                          "PATH",
                          kPinnedVersion));
}

// The client in `folder`/hf. A mark, written last, says that the installation is whole.
Path install(const Path& deps) {
  const Path folder = deps / "hf", mark = folder / "hearth.txt";
  Path program = folder / "bin" / "hf";
  make_folders(deps);
  std::unique_ptr<FileLock> lock;
  for (int waited = 0; (lock = FileLock::try_lock(deps / ".hf.lock")) == nullptr; ++waited) {
    if (waited == static_cast<int>(kInstallTimeoutS))
      throw Error(ExitCode::kHardware, fmt::format("another program holds {}", (deps / ".hf.lock").string()), {},
                  "end it, then run the command again");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (path_exists(mark)) return program;
  const Path python = find_program("python3");
  if (python.empty())
    throw user_error("there is no client of the Hub", "neither hf nor python3 is in PATH",
                     "install python3 with its venv module, or huggingface_hub");
  log_info("installing huggingface_hub {} into {} (30 MB)", kPinnedVersion, folder.string());
  remove_tree(folder);
  run_install({python.string(), "-m", "venv", folder.string()});
  run_install({(folder / "bin" / "python").string(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
               "--no-input", "--retries", "3", "--timeout", "30", "--only-binary",
               ":all:", fmt::format("huggingface_hub=={}", kPinnedVersion)});
  write_file_atomic(mark, std::string(kPinnedVersion) + "\n");
  return program;
}

}  // namespace

std::string without_tokens(std::string text) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN"}) {
    const std::string token = environment_variable(name);
    if (token.size() < 4) continue;
    for (size_t at = 0; (at = text.find(token, at)) != std::string::npos;) text.replace(at, token.size(), name);
  }
  return text;
}

Client Client::find_or_install() {
  if (const std::string own = environment_variable("HEARTH_HF"); !own.empty()) {
    if (!path_exists(own)) throw user_error(fmt::format("HEARTH_HF={} is not there", own), {}, "correct or unset it");
    return Client(own);
  }
  const Path deps = dependencies_folder();
  if (path_exists(deps / "hf" / "hearth.txt")) return Client(deps / "hf" / "bin" / "hf");
  const Path found = find_program("hf");
  if (!found.empty() && is_new_enough(found)) return Client(found);
  return Client(install(deps));
}

std::string Client::run(std::vector<std::string> words, const std::string& about, double timeout_s,
                        const std::function<void()>& while_it_runs) const {
  words.insert(words.begin(), program_.string());
  const Process process{std::move(words), client_settings(), timeout_s, while_it_runs};
  for (size_t attempt = 0;; ++attempt) {
    Outcome outcome = run_process(process);
    outcome.errors = without_tokens(std::move(outcome.errors));
    if (outcome.exit_code == 0) return outcome.output;
    if (outcome.exit_code == 127)
      throw user_error(fmt::format("{} cannot be run", program_.string()), reason_in(outcome.errors),
                       "remove it, or correct HEARTH_HF");
    if (const std::optional<Error> error = lasting_error(outcome, about)) throw *error;
    const std::string reason =
        outcome.timed_out ? fmt::format("no answer within {} s", timeout_s) : reason_in(outcome.errors);
    if (outcome.timed_out || attempt == kPausesS.size())
      throw Error(ExitCode::kHardware, fmt::format("the Hub does not answer about {}", about), reason,
                  "check the network, then run the command again: it goes on where it stopped");
    log_info("note: {}; trying again in {} s", reason, kPausesS[attempt]);
    std::this_thread::sleep_for(std::chrono::seconds(kPausesS[attempt]));
  }
}

std::string Client::ask(std::vector<std::string> words, const std::string& about) const {
  words.insert(words.end(), {"--format", "json"});
  return run(std::move(words), about, kAskTimeoutS, {});
}

void Client::transfer(std::vector<std::string> words, const std::string& about,
                      const std::function<void()>& while_it_runs) const {
  run(std::move(words), about, 0, while_it_runs);
}

}  // namespace hearth::hub
