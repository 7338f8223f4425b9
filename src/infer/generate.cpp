// SPDX-License-Identifier: Apache-2.0
#include "infer/generate.h"

#include <c10/core/InferenceMode.h>

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "base/quantity.h"
#include "data/batch/prompt.h"
#include "infer/decoding.h"
#include "infer/denoise.h"
#include "infer/fill.h"
#include "infer/generate_array.h"
#include "infer/generate_prompts.h"
#include "infer/output_file.h"
#include "infer/text_writer.h"
#include "metrics/throughput.h"
#include "recordings/raster.h"

namespace hearth::infer {
namespace {

std::vector<int32_t> prompt_ids_of(const LoadedModel& model, const std::string& text) {
  std::vector<int32_t> tokens = data::prompt_tokens(*model.tokenizer, model.manifest.document_bos, text);
  if (tokens.empty())
    throw user_error("the prompt is empty", "the model's tokenizer has neither BOS nor EOS",
                     "give the start of the text: --prompt TEXT");
  return tokens;
}

}  // namespace

GenerationCounts generate(LoadedModel& model, const Generation& request,
                          const std::function<void(std::string_view)>& show) {
  const c10::InferenceMode no_gradients;
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> context = prompt_ids_of(model, request.prompt);
  GenerationCounts counts{static_cast<int64_t>(context.size()), 0, false};
  const WritingRules rules{request.max_tokens, request.sampling, request.stop};
  TextWriter writer(tokenizer, rules, request.seed);
  show(writer.begin(request.prompt));
  Decoding decoding(model, std::move(context));
  while (!writer.ending()) {
    if (const auto token = writer.next(decoding.logits())) decoding.append(*token);
    show(writer.take_text());
  }
  counts.generated_tokens = writer.tokens();
  counts.ended = writer.ending() == Ending::kEos;
  return counts;
}

namespace {

// An option that has no effect with this checkpoint is an error.
void check_options(const LoadedModel& model, const config::GenerateOptions& options) {
  const bool arrays = model.tokenizer->arrays() != nullptr;
  const auto refuse = [&](bool given, const char* option) {
    if (given && !arrays)
      throw user_error(fmt::format("{} is for recordings", option),
                       fmt::format("{} was trained on {}", model.folder.string(), model.manifest.tokenizer),
                       "leave it out");
  };
  refuse(options.n_fixed >= 0, "--n-fixed");
  refuse(options.context_bins > 0, "--context");
  refuse(options.prompts.empty() && !options.out.empty(), "--out without --prompts");
  refuse(!options.picture.empty(), "--picture");
  if (arrays && !options.stop.empty())
    throw user_error("--stop is for text", fmt::format("{} continues recordings", model.folder.string()),
                     "leave it out");
  const config::Objective& objective = model.config.objective;
  if (objective.diffuses() && arrays)
    throw user_error(fmt::format("{} does not continue recordings", model.folder.string()),
                     "objective.kind = \"masked_diffusion\" makes texts", {});
  if (!objective.diffuses()) {
    for (const auto& [given, option] : {std::pair(options.steps, "--steps"), {options.block_length, "--block-length"}})
      if (given > 0)
        throw user_error(
            fmt::format("{} is for models of masked_diffusion", option),
            fmt::format("{} was trained with objective.kind = \"{}\"", model.folder.string(), name_of(objective.kind)),
            "leave it out");
  }
  if (options.fill.empty() && (options.prompts.empty() || arrays) && objective.masked() && !objective.diffuses())
    throw user_error(fmt::format("{} does not continue a text", model.folder.string()),
                     "it was trained to fill in hidden tokens (objective.kind = \"masked_lm\")",
                     fmt::format("give --fill \"... {} ...\"", mask_text(model)));
}

void print_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

SamplingOptions sampling_of(const config::GenerateOptions& options) {
  return {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p, .min_p = options.min_p};
}

ExitCode run_generate(const config::GenerateOptions& options) {
  const auto model = load_model(options.checkpoint, options.device);
  check_options(*model, options);
  if (!options.prompts.empty()) return run_generate_prompts(*model, options);
  const SamplingOptions sampling = sampling_of(options);
  const double start_s = metrics::monotonic_seconds();
  GenerationCounts counts;
  std::string what;
  if (!options.fill.empty()) {
    const Filled filled = fill_masks(*model, {options.fill, sampling, options.seed});
    counts.generated_tokens = static_cast<int64_t>(filled.positions.size());
    print_text(filled.text + "\n");
  } else if (model->tokenizer->arrays() != nullptr) {
    for (const auto& [option, file] : {std::pair("--out", options.out), std::pair("--picture", options.picture)})
      prepare_output(option, file);  // fails now, not after an hour
    const recordings::ArrayPrompt prompt =
        read_prompt_array(*model, options.prompt, options.context_bins, options.n_fixed);
    recordings::Raster generated = recordings::raster_of(prompt.context);
    counts = generate_array(*model, {prompt.context, options.max_tokens, sampling, options.seed},
                            [&](std::span<const uint8_t> bin) {
                              generated.bins.emplace_back(bin.begin(), bin.end());
                              print_text(fmt::format("{}\n", fmt::join(bin, " ")));
                            });
    recordings::write_generated(options.out, options.picture, prompt, generated);
    what = fmt::format("{} time bins of {} neurons, ",
                       static_cast<int64_t>(generated.bins.size()) - prompt.context.shape.bins, generated.neurons);
  } else if (model->config.objective.diffuses()) {
    const DenoisedText made = denoised_text(*model, prompt_ids_of(*model, options.prompt), denoising_rules(options),
                                            options.stop, options.seed);
    counts = made.counts;
    print_text(options.prompt + made.text + "\n");
  } else {
    counts = generate(*model, {options.prompt, options.max_tokens, sampling, options.seed, options.stop}, print_text);
    print_text("\n");  // comes before the text on stderr if both go to one terminal
  }
  const double seconds = metrics::monotonic_seconds() - start_s;
  log_info("{}{} tokens in {} ({:.0f} tokens/s){}", what, counts.generated_tokens, format_duration(seconds),
           static_cast<double>(counts.generated_tokens) / seconds, counts.ended ? "; the model ended the text" : "");
  return ExitCode::kDone;
}

}  // namespace hearth::infer
