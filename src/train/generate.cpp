#include "train/generate.h"

#include <c10/core/InferenceMode.h>

#include <fmt/format.h>

#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "metrics/throughput.h"
#include "train/continuation.h"
#include "train/generate_array.h"
#include "train/text_stream.h"

namespace hearth::train {
namespace {

// What the model saw before each document's first token: a prompt begins a document.
std::vector<int32_t> document_start(const LoadedModel& model) {
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> start;
  if (tokenizer.eos()) start.push_back(static_cast<int32_t>(*tokenizer.eos()));
  if (tokenizer.bos() && (model.manifest.document_bos || start.empty()))
    start.push_back(static_cast<int32_t>(*tokenizer.bos()));
  return start;
}

}  // namespace

GenerationCounts generate(LoadedModel& model, const Generation& request,
                          const std::function<void(std::string_view)>& show) {
  const c10::InferenceMode no_gradients;
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  std::vector<uint32_t> prompt_ids;
  tokenizer.encode(request.prompt, prompt_ids);
  std::vector<int32_t> context = document_start(model);
  context.insert(context.end(), prompt_ids.begin(), prompt_ids.end());
  if (context.empty())
    throw user_error("the prompt is empty", "this tokenizer has no token that starts a document", "give --prompt TEXT");

  TextStream stream;
  show(stream.push(request.prompt));
  GenerationCounts counts{static_cast<int64_t>(context.size()), 0, false};
  const RandomKey key = random_key(request.seed, "generate");
  Continuation continuation(model, std::move(context));
  while (counts.generated_tokens < request.max_tokens) {
    const std::vector<double> logits = continuation.logits();
    const double uniform = random_uniform(key, static_cast<uint64_t>(counts.generated_tokens));
    const auto id = static_cast<uint32_t>(sample_token(logits, request.sampling, uniform));
    if (tokenizer.eos() == id) {
      counts.ended = true;
      break;
    }
    ++counts.generated_tokens;
    continuation.append(static_cast<int32_t>(id));
    std::string bytes;
    tokenizer.decode(id, bytes);
    show(stream.push(bytes));
  }
  show(stream.finish());
  return counts;
}

ExitCode run_generate(const config::GenerateOptions& options) {
  const auto model = load_model(options.checkpoint);
  const SamplingOptions sampling{.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p};
  const double start_s = metrics::monotonic_seconds();
  GenerationCounts counts;
  std::string what;
  if (model->tokenizer->arrays() != nullptr) {
    const ArrayGeneration request{read_prompt_array(*model, options.prompt), options.max_tokens, sampling,
                                  options.seed};
    int64_t bins = 0;
    counts = generate_array(*model, request, [&](std::span<const uint8_t> bin) {
      ++bins;
      fmt::print(stdout, "{}\n", fmt::join(bin, " "));
      std::fflush(stdout);
    });
    what = fmt::format("{} time bins of {} neurons, ", bins, request.prompt.shape.neurons);
  } else {
    const Generation request{options.prompt, options.max_tokens, sampling, options.seed};
    counts = generate(*model, request, [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    });
    fmt::print(stdout, "\n");
    std::fflush(stdout);  // before what stderr says, where both go to one place
  }
  const double seconds = metrics::monotonic_seconds() - start_s;
  fmt::print(stderr, "{}{} tokens in {} ({:.0f} tokens/s){}\n", what, counts.generated_tokens, format_duration(seconds),
             static_cast<double>(counts.generated_tokens) / seconds, counts.ended ? "; the model ended the text" : "");
  return ExitCode::kDone;
}

}  // namespace hearth::train
