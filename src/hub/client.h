// SPDX-License-Identifier: Apache-2.0
// The Hub's official client, `hf` of PyPI's huggingface_hub. It owns the network: resumed transfers, retries, tokens.
// Hearth never puts a token on its command line; the client reads HF_TOKEN itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::hub {

class Client {
 public:
  // Looks for the program in this order: HEARTH_HF's, the one in the .deps folder, `hf` in PATH if it is new enough.
  // Otherwise pip installs it into .deps/hf. Throws user_error or an Error with kHardware if that fails, too.
  static Client find_or_install();

  // Runs a command that prints JSON, and returns the JSON. Tries again after errors of the network and of the server.
  // `about`: the repository, for errors.
  std::string ask(std::vector<std::string> words, const std::string& about) const;

  // Runs a download or an upload. Tries again as above: a transfer continues where it stopped.
  void transfer(std::vector<std::string> words, const std::string& about,
                const std::function<void()>& while_it_runs) const;

  const Path& program() const { return program_; }

 private:
  explicit Client(Path program) : program_(std::move(program)) {}
  std::string run(std::vector<std::string> words, const std::string& about, double timeout_s,
                  const std::function<void()>& while_it_runs) const;

  Path program_;
};

// `text` without the values of HF_TOKEN and similar variables.
std::string without_tokens(std::string text);

}  // namespace hearth::hub
