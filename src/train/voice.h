// SPDX-License-Identifier: Apache-2.0
// A rank's output outside of its steps: rank 0 also prints it on the console.
#pragma once

#include <string>

#include "base/log.h"
#include "run/run.h"

namespace hearth::train {

class Voice {
 public:
  Voice(const run::Run& run, int64_t rank);
  void say(LogLevel level, const std::string& text);
  void print(const std::string& text) const;
  RankLog& log() { return log_; }

 private:
  RankLog log_;
  bool prints_;
};

}  // namespace hearth::train
