// `hearth generate`: checks its options, then becomes `hearth-train`.
#include "base/error.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"
#include "data/shard/array_stream.h"

namespace hearth::commands {
namespace {

void check_fill(const CommandLine& line, const config::GenerateOptions& options) {
  if (options.fill.empty())
    throw user_error("the text of --fill is empty", {},
                     "write [MASK] for each token to be filled in: \"To [MASK] or not\"");
  for (const char* option : {"--max-tokens", "--n-fixed", "--context", "--out", "--picture"}) {
    if (line.given(option))
      throw user_error(fmt::format("{} has no effect with --fill", option),
                       "one token is filled in for each mask of the text", fmt::format("leave out {}", option));
  }
}

}  // namespace

std::optional<config::GenerateOptions> generate_options(CommandLine& line) {
  config::GenerateOptions options;
  line.option("--checkpoint", "DIR", &options.checkpoint, "a checkpoint, or a run folder for its newest one")
      .required();
  line.option(
      "--prompt", "TEXT", &options.prompt,
      "the beginning of the text, \"\" for the beginning of a document; for a checkpoint of spike counts a .npy "
      "(uint8, neurons x time bins), whose "
      "next bins are printed: one line per bin, one count per neuron");
  line.option("--fill", "TEXT", &options.fill,
              "of a checkpoint of masked_lm: a text in which the mask token, or [MASK], stands for each token to be "
              "found; the most certain one is filled in first");
  line.option("--max-tokens", "N", &options.max_tokens,
              "tokens after the prompt; when prompt and text fill the window that the model was trained on "
              "(training.seq_len), the newer half of the window stays as context and the rest is forgotten; of spike "
              "counts a time bin is one more than there are neurons, and the last one is finished")
      .range(1, 1e15);
  line.option("--temperature", "T", &options.temperature,
              "of the choice among tokens; 0 always takes the most likely one")
      .range(0);
  line.option("--top-k", "K", &options.top_k, "choose among the K most likely tokens only; 0 means all").range(0);
  line.option("--top-p", "P", &options.top_p,
              "choose among the fewest tokens that together have this probability; 1 means all")
      .range(0, 1);
  line.option("--seed", "S", &options.seed, "the same seed gives the same text");
  line.option("--threads", "N", &options.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  line.option("--device", "NAME", &options.device, "the device: cpu, or cuda for a GPU").choices({"cpu", "cuda"});
  line.option("--n-fixed", "N", &options.n_fixed,
              "of spike counts: give the prompt N neurons, the first ones, or all of them repeated; 0: those that it "
              "has; -1: as many as the recordings had that the model was trained on")
      .range(-1, data::kMostNeurons);
  line.option("--context", "BINS", &options.context_bins,
              "for spike counts: the number of the prompt's first bins that the model reads; the later ones are the "
              "recorded continuation; 0 "
              "means all")
      .range(0, 1e15);
  line.option("--out", "FILE.npy", &options.out, "of spike counts: also the generated bins, uint8, neurons x bins");
  line.option("--picture", "FILE.png", &options.picture,
              "for spike counts: also a picture, recorded bins on the left, generated bins on the right; only the "
              "generated bins if --context leaves no recorded ones");
  if (!line.parse()) return std::nullopt;
  const bool prompt = line.given("--prompt"), fill = line.given("--fill");
  if (prompt == fill)
    throw user_error(prompt ? "--prompt and --fill are both given" : "neither --prompt nor --fill is given", {},
                     "give one of them");
  if (fill) check_fill(line, options);
  return options;
}

int generate(CommandLine& line) {
  if (!generate_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
