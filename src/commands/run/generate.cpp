// SPDX-License-Identifier: Apache-2.0
// The options of `hearth generate`.
#include "base/text.h"
#include "commands/torch_options.h"
#include "recordings/array_stream.h"

namespace hearth::commands {
namespace {

void check_fill(const CommandLine& line, const config::GenerateOptions& options) {
  if (options.fill.empty())
    throw user_error("the text of --fill is empty", {},
                     "write [MASK] for each token to be filled in: \"To [MASK] or not\"");
  for (const char* option :
       {"--max-tokens", "--n-fixed", "--context", "--out", "--picture", "--stop", "--steps", "--block-length"}) {
    if (line.given(option))
      throw user_error(fmt::format("{} has no effect with --fill", option),
                       "one token is filled in for each mask of the text", fmt::format("leave out {}", option));
  }
}

void check_prompts(const CommandLine& line) {
  if (!line.given("--out"))
    throw user_error("--prompts is given without --out", {}, "give a file for the texts: --out FILE.jsonl");
  if (line.given("--picture"))
    throw user_error("--picture has no effect with --prompts", "it shows one recording", "leave out --picture");
}

// One source of texts, and options that go with it.
void check_texts(const CommandLine& line, const config::GenerateOptions& options) {
  std::vector<std::string> given;
  for (const char* option : {"--prompt", "--prompts", "--fill"})
    if (line.given(option)) given.emplace_back(option);
  if (given.size() != 1)
    throw user_error(given.empty()
                         ? "neither --prompt nor --fill nor --prompts is given"
                         : fmt::format("{} are {} given", join(given, " and "), given.size() == 2 ? "both" : "all"),
                     {}, "give one of them");
  for (const std::string& stop : options.stop)
    if (stop.empty()) throw user_error("a text of --stop is empty", {}, "leave it out");
  if (line.given("--batch-size") && !line.given("--prompts"))
    throw user_error("--batch-size goes with --prompts", "one text is made", "leave it out");
  if (line.given("--fill")) check_fill(line, options);
  if (line.given("--prompts")) check_prompts(line);
}

}  // namespace

std::optional<config::GenerateOptions> generate_options(CommandLine& line) {
  config::GenerateOptions options;
  line.option("--checkpoint DIR", &options.checkpoint, "a checkpoint, or a run folder for its newest one").required();
  line.option(
      "--prompt TEXT", &options.prompt,
      "the beginning of the text, \"\" for the beginning of a document; the model reads it after what stands before a "
      "document in the training: EOS of the one before, and BOS if documents have it; for a checkpoint of spike counts "
      "a .npy (uint8, neurons x time bins), whose next bins are printed: one line per bin, one count per neuron");
  line.option("--fill TEXT", &options.fill,
              "of a checkpoint of masked_lm: a text in which the mask token, or [MASK], stands for each token to be "
              "found; the most certain one is filled in first");
  line.option(
      "--prompts FILE", &options.prompts,
      "a file of prompts, in place of one: lines of text, or in a .jsonl objects {\"prompt\": TEXT}; the texts go to "
      "--out, those of masked_lm with their masks filled in; for spike counts names of .npy files; prompt number I, "
      "from 0, has the seed S + I; a command that was killed goes on when it is started again");
  line.option("--batch-size N", &options.batch_size, within(1, 1 << 20), "of --prompts: prompts at a time; default: 8");
  line.option("--max-tokens N", &options.max_tokens, within(1, 1e15),
              "tokens after the prompt; when prompt and text fill the window that the model was trained on "
              "(training.seq_len), the newer half of the window stays as context and the rest is forgotten; of spike "
              "counts a time bin is one more than there are neurons, and the last one is finished");
  line.option("--temperature T", &options.temperature, at_least(0),
              "of the choice among tokens; 0 always takes the most likely one");
  line.option("--top-k K", &options.top_k, at_least(0), "choose among the K most likely tokens only; 0 means all");
  line.option("--top-p P", &options.top_p, within(0, 1),
              "choose among the fewest tokens that together have this probability; 1 means all");
  line.option("--min-p P", &options.min_p, within(0, 1),
              "choose among the tokens that have at least this part of the most likely one's probability; 0 means all");
  line.option("--stop TEXT", &options.stop, "end the text before this string; may be given several times");
  line.option("--steps N", &options.steps, within(1, 1e15),
              "of a checkpoint of masked_diffusion: forward passes for the --max-tokens masks after the prompt, which "
              "fill in equal numbers, the most certain ones first; default: one for each token");
  line.option("--block-length N", &options.block_length, within(1, 1e15),
              "of a checkpoint of masked_diffusion: tokens of a block; a block is complete before the next one begins; "
              "default: one block");
  line.option("--seed S", &options.seed, "the same seed gives the same text");
  line.option("--threads N", &options.threads, within(0, 4096), "CPU threads; 0 means all it may use");
  line.option("--device NAME", &options.device, one_of({"cpu", "cuda"}), "the device: cpu, or cuda for a GPU");
  line.option("--n-fixed N", &options.n_fixed, within(-1, recordings::kMostNeurons),
              "of spike counts: give the prompt N neurons, the first ones, or all of them repeated; 0: those that it "
              "has; -1: as many as the recordings had that the model was trained on");
  line.option("--context BINS", &options.context_bins, within(0, 1e15),
              "for spike counts: the number of the prompt's first bins that the model reads; the later ones are the "
              "recorded continuation; 0 means all");
  line.option(
      "--out FILE", &options.out,
      "of --prompts: a line of JSON for each prompt, with its prompt, text (of spike counts bins), tokens, stop (eos, "
      "length, stop or filled) and seed; of spike counts: also the generated bins, a .npy of uint8, neurons x bins");
  line.option("--picture FILE.png", &options.picture,
              "for spike counts: also a picture, recorded bins on the left, generated bins on the right; only the "
              "generated bins if --context leaves no recorded ones");
  if (!line.parse()) return std::nullopt;
  options.max_tokens_given = line.given("--max-tokens");
  check_texts(line, options);
  return options;
}

}  // namespace hearth::commands
