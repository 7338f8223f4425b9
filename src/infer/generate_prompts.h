// SPDX-License-Identifier: Apache-2.0
// `hearth generate --prompts FILE --out FILE`: continues the prompts of a file, several at a time, or fills their masks
// in.
//
// Prompts are lines of text, or JSON objects {"prompt": "..."} in a file that ends in .jsonl. Empty lines are left out.
// The output has a line for each prompt, in their order:
//   {"prompt": "...", "text": "...", "tokens": N, "stop": "eos", "seed": S}
// "text" is the text after the prompt, or the whole text if the model fills in masks. A model of recordings takes the
// names of .npy files as prompts. Its lines have "bins" in place of "text": for each time bin the counts of all
// neurons. "stop" says why the text ended: "eos", "length", "stop" (a stop string) or "filled". Prompt number i, from
// 0, has the seed S + i, and its text is what `hearth generate --seed` gives, up to the rounding of matrix products.
//
// Lines go to FILE.partial, which is renamed to FILE after the last line. If a command was killed, the same command
// with the same settings continues after the complete lines of FILE.partial; with other settings it starts again.
// FILE.partial.lock is locked meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "infer/loaded_model.h"
#include "infer/text_writer.h"

namespace hearth::infer {

struct PromptLine {
  std::string text;
  int64_t line = 0;  // of the file, from 1
};

struct GeneratedText {
  std::string text;
  int64_t tokens = 0;
  std::string stop;
};

// Throws user_error with the file and the line.
std::vector<PromptLine> read_prompts(const Path& file);

// Continues the prompts from number `first` on, `batch_size` at a time. Calls `done` with each prompt's number and
// text, when the text ends. A row whose text has ended takes the next prompt. Prompt i has the seed `seed` + i.
void continue_prompts(LoadedModel& model, const std::vector<std::vector<int32_t>>& prompts, size_t first,
                      const WritingRules& rules, uint64_t seed, int64_t batch_size,
                      const std::function<void(size_t, const GeneratedText&)>& done);

ExitCode run_generate_prompts(LoadedModel& model, const config::GenerateOptions& options);

}  // namespace hearth::infer
