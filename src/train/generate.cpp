#include "train/generate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "metrics/throughput.h"
#include "model/decoder.h"
#include "ops/tensor.h"
#include "train/text_stream.h"

namespace hearth::train {
namespace {

// The logits of the tokenizer's own ids: a vocabulary may be padded to a round size.
std::vector<double> to_doubles(const at::Tensor& logits_V, int64_t vocab_size) {
  std::vector<double> values(static_cast<size_t>(std::min(logits_V.numel(), vocab_size)));
  const bool is_double = ops::dtype_of(logits_V) == DType::kFloat64;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = is_double ? logits_V.data_ptr<double>()[i] : static_cast<double>(logits_V.data_ptr<float>()[i]);
  return values;
}

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

  // Rotary positions past the trained window were never seen: the window slides instead, by half its length at a time.
  const int64_t window = model.config.training.seq_len;
  model::Decoder decoder(model.shape, model.plan, *model.weights, window, model.dtype);
  std::vector<int32_t> fresh = context;
  if (static_cast<int64_t>(fresh.size()) > window) fresh.assign(context.end() - (window + 1) / 2, context.end());

  TextStream stream;
  show(stream.push(request.prompt));
  GenerationCounts counts{static_cast<int64_t>(context.size()), 0, false};
  const RandomKey key = random_key(request.seed, "generate");
  while (counts.generated_tokens < request.max_tokens) {
    if (decoder.size() + static_cast<int64_t>(fresh.size()) > window) {
      decoder.clear();
      fresh.assign(context.end() - (window + 1) / 2, context.end());
    }
    const std::vector<double> logits = to_doubles(decoder.append(fresh), tokenizer.vocab_size());
    const double uniform = random_uniform(key, static_cast<uint64_t>(counts.generated_tokens));
    const auto id = static_cast<uint32_t>(sample_token(logits, request.sampling, uniform));
    if (tokenizer.eos() == id) {
      counts.ended = true;
      break;
    }
    ++counts.generated_tokens;
    fresh = {static_cast<int32_t>(id)};
    context.push_back(static_cast<int32_t>(id));
    std::string bytes;
    tokenizer.decode(id, bytes);
    show(stream.push(bytes));
  }
  show(stream.finish());
  return counts;
}

ExitCode run_generate(const config::GenerateOptions& options) {
  const auto model = load_model(options.checkpoint);
  const Generation request{
      .prompt = options.prompt,
      .max_tokens = options.max_tokens,
      .sampling = {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p},
      .seed = options.seed};
  const double start_s = metrics::monotonic_seconds();
  const GenerationCounts counts = generate(*model, request, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  const double seconds = metrics::monotonic_seconds() - start_s;
  fmt::print(stdout, "\n");
  std::fflush(stdout);  // before what stderr says, where both go to one place
  fmt::print(stderr, "{} tokens in {} ({:.0f} tokens/s){}\n", counts.generated_tokens, format_duration(seconds),
             static_cast<double>(counts.generated_tokens) / seconds, counts.ended ? "; the model ended the text" : "");
  return ExitCode::kDone;
}

}  // namespace hearth::train
