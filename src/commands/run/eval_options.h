// SPDX-License-Identifier: Apache-2.0
// What `hearth eval` and `hearth score` share: options, and checks of them after line.parse().
#pragma once

#include <fmt/format.h>

#include "commands/command_line.h"
#include "config/options.h"

namespace hearth::commands {

// An option that has no effect is an error.
inline void need(const CommandLine& line, const char* option, bool is_there, const char* other) {
  if (line.given(option) && !is_there)
    throw user_error(fmt::format("{} goes with {}", option, other), "", fmt::format("give {}, or remove it", other));
}

// The options about examples before a question.
inline void add_shots(CommandLine& line, config::EvalOptions& options) {
  line.option("--shots N", &options.shots, within(0, 1 << 20),
              "put the first N questions of --shots-from, solved, before each question");
  line.option("--shots-from FILE", &options.shots_from, "questions in the format of --task");
  line.option("--delimiter TEXT", &options.delimiter, "text between a query and a choice");
}

inline void check_shots(const CommandLine& line, const config::EvalOptions& options) {
  for (const char* option : {"--shots", "--shots-from", "--delimiter"})
    need(line, option, !options.tasks.empty(), "--task FILE");
  need(line, "--shots", options.shots == 0 || !options.shots_from.empty(), "--shots-from FILE");
  need(line, "--shots-from", options.shots > 0, "--shots N");
}

inline void add_computation(CommandLine& line, config::EvalOptions& options) {
  line.option("--seed S", &options.seed, "of the positions that a masked model has to predict");
  line.option("--batch-size N", &options.batch_size, within(1, 1 << 20), "sequences at a time");
  line.option("--threads N", &options.threads, within(0, 4096), "CPU threads; 0 means all it may use");
  line.option("--device NAME", &options.device, one_of({"cpu", "cuda"}), "the device: cpu, or cuda for a GPU");
}

}  // namespace hearth::commands
