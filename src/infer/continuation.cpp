// SPDX-License-Identifier: Apache-2.0
#include "infer/continuation.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/quantity.h"
#include "infer/decoding.h"
#include "infer/progress.h"
#include "ops/cross_entropy.h"
#include "ops/tensor.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::infer {
namespace {

// Lengths of computed sequences are multiples of this, so that few models are set up.
constexpr int64_t kLengthStep = 64;

// Where the white space at the end of `text` begins. White space is that of Python's str.rstrip().
size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    const char32_t c = tokenizer::decode_utf8(text, begin).c;
    if (!tokenizer::is_white_space(c) && (c < 0x1C || c > 0x1F)) break;
    end = begin;
  }
  return end;
}

std::vector<int32_t> encode(tokenizer::Encoder& encoder, std::string_view text, std::vector<int32_t> start) {
  std::vector<uint32_t> ids;
  encoder.encode(text, ids);
  start.insert(start.end(), ids.begin(), ids.end());
  return start;
}

// The tokens of a text that begins a document. A text that spells BOS itself gets no other one.
std::vector<int32_t> with_bos(const LoadedModel& model, tokenizer::Encoder& encoder, const std::string& text) {
  const std::optional<uint32_t> bos = model.tokenizer->bos();
  if (!bos || !model.manifest.document_bos) return encode(encoder, text, {});
  for (const tokenizer::SpecialToken& special : model.tokenizer->special_tokens())
    if (special.id == *bos && text.starts_with(special.text)) return encode(encoder, text, {});
  return encode(encoder, text, {static_cast<int32_t>(*bos)});
}

// An input of the model, and the texts that ask for its predictions.
struct Input {
  std::span<const int32_t> tokens;
  std::vector<size_t> texts;
};

// The tokens that the model reads: all but the last, of which the last `window` are left.
std::span<const int32_t> input_of(const ContinuationTokens& text, int64_t window) {
  const std::span<const int32_t> all(text.ids.data(), text.ids.size() - 1);
  return all.last(std::min(all.size(), static_cast<size_t>(window)));
}

// Longest first, so that a batch has sequences of similar lengths.
std::vector<Input> distinct_inputs(std::span<const ContinuationTokens> texts, int64_t window) {
  std::map<std::vector<int32_t>, size_t> known;
  std::vector<Input> inputs;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::span<const int32_t> tokens = input_of(texts[i], window);
    const auto [place, is_new] = known.try_emplace({tokens.begin(), tokens.end()}, inputs.size());
    if (is_new) inputs.push_back({tokens, {}});
    inputs[place->second].texts.push_back(i);
  }
  std::ranges::stable_sort(inputs, std::greater(), [](const Input& input) { return input.tokens.size(); });
  return inputs;
}

// A prediction that a text asks for: the token that comes after a position of the batch.
struct Asked {
  int64_t position;
  int32_t token;
  size_t text;
};

// Computes batches of one length at a time.
class BatchScorer {
 public:
  BatchScorer(LoadedModel& model, int64_t batch_size) : model_(model), B_(batch_size) {}

  void add(std::span<const Input> inputs, std::span<const ContinuationTokens> texts,
           std::vector<LogLikelihood>& results) {
    const auto longest = static_cast<int64_t>(inputs.front().tokens.size());
    const int64_t length_of_batch = std::min(model_.config.training.seq_len, round_up(longest, kLengthStep));
    // Padding must not bring longrope's long factors: transformers has them where a sequence of the batch is so long.
    const plan::Rope& rope = model_.shape.rope;
    set_length(rope.is_long(length_of_batch) && !rope.is_long(longest) ? rope.original_seq_len : length_of_batch);
    std::vector<int32_t> tokens(static_cast<size_t>(B_ * S_), 0);  // padding, which no asked position sees
    std::vector<Asked> asked;
    for (size_t row = 0; row < inputs.size(); ++row) {
      const Input& input = inputs[row];
      const auto begin = static_cast<int64_t>(row) * S_, length = static_cast<int64_t>(input.tokens.size());
      std::copy(input.tokens.begin(), input.tokens.end(), tokens.begin() + begin);
      for (const size_t text : input.texts) {
        const ContinuationTokens& t = texts[text];
        for (int64_t i = 0; i < t.scored; ++i)
          asked.push_back(
              {begin + length - t.scored + i, t.ids[t.ids.size() - static_cast<size_t>(t.scored - i)], text});
      }
    }
    std::vector<int32_t> starts(static_cast<size_t>(B_));
    for (size_t row = 0; row < starts.size(); ++row) starts[row] = static_cast<int32_t>(static_cast<int64_t>(row) * S_);
    compute_sequences(*transformer_, *model_.weights, tokens, starts);
    const auto chunk = static_cast<size_t>(model_.loss_chunk());
    for (size_t first = 0; first < asked.size(); first += chunk)
      add_logits(std::span(asked).subspan(first, std::min(chunk, asked.size() - first)), results);
  }

 private:
  void set_length(int64_t S) {
    if (S == S_) return;
    S_ = S;
    transformer_.reset();  // its memory is free before the next one's is taken
    transformer_.emplace(model_.shape, model_.plan, B_, S_, model_.compute_options());
  }

  void add_logits(std::span<const Asked> asked, std::vector<LogLikelihood>& results) {
    std::vector<int64_t> positions;
    std::vector<int32_t> tokens;
    for (const Asked& a : asked) {
      positions.push_back(a.position);
      tokens.push_back(a.token);
    }
    const at::Device device = model_.weights->device();
    const at::Tensor logits_NV = transformer_->logits(*model_.weights, ops::from_int64(positions, device));
    // Each row: the logarithm of the sum of exp(logits), and the token's logit.
    const at::Tensor statistics_N2 = ops::zeros({logits_NV.size(0), 2}, DType::kFloat64, device);
    ops::cross_entropy_statistics(statistics_N2, logits_NV, ops::from_int32(tokens, device), {0, logits_NV.size(1)});
    const std::vector<double> statistics = ops::to_doubles(statistics_N2.view({-1}));
    const std::vector<double> best = ops::to_doubles(logits_NV.argmax(1).to(at::kDouble));
    for (size_t i = 0; i < asked.size(); ++i) {
      LogLikelihood& result = results[asked[i].text];
      result.sum += statistics[2 * i + 1] - statistics[2 * i];
      ++result.tokens;
      result.is_greedy = result.is_greedy && static_cast<int64_t>(best[i]) == asked[i].token;
    }
  }

  LoadedModel& model_;
  const int64_t B_;
  int64_t S_ = 0;
  std::optional<model::Transformer> transformer_;  // for B_ sequences of S_ tokens
};

}  // namespace

ContinuationTokens tokens_of(const LoadedModel& model, tokenizer::Encoder& encoder, const Continuation& text) {
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  const std::string_view context = std::string_view(text.context).substr(0, trailing_space(text.context));
  ContinuationTokens result;
  size_t context_tokens = 0;
  if (context.empty()) {
    const std::optional<uint32_t> first = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
    if (!first)
      throw user_error("a question has no text before its choices", "the model's tokenizer has neither BOS nor EOS",
                       "begin each query with some text");
    result.ids = encode(encoder, text.context + text.continuation, {});
    if (result.ids.empty() || result.ids.front() != static_cast<int32_t>(*first))
      result.ids.insert(result.ids.begin(), static_cast<int32_t>(*first));
    context_tokens = 1;
  } else {
    // As in the harness, the model reads the context's own tokens, also where the whole text has others there: with a
    // token ":\n", the text "A:\n B" has it and the context "A:" does not.
    result.ids = with_bos(model, encoder, std::string(context));
    context_tokens = result.ids.size();
    const std::vector<int32_t> whole = with_bos(model, encoder, text.context + text.continuation);
    if (whole.size() > context_tokens)
      result.ids.insert(result.ids.end(), whole.begin() + static_cast<std::ptrdiff_t>(context_tokens), whole.end());
  }
  result.scored = static_cast<int64_t>(result.ids.size()) - static_cast<int64_t>(context_tokens);
  if (result.scored <= 0 || context_tokens == 0)
    throw user_error(fmt::format("\"{}\" has no token of its own", text.continuation),
                     "the tokenizer joins it with the text before it", "write the question differently");
  if (result.scored > model.config.training.seq_len)
    throw user_error(fmt::format("a choice of {} tokens is too long", result.scored),
                     fmt::format("the model's window has {} tokens (training.seq_len)", model.config.training.seq_len),
                     "shorten the choice, or leave its question out");
  return result;
}

std::vector<LogLikelihood> log_likelihoods(LoadedModel& model, std::span<const ContinuationTokens> texts,
                                           int64_t batch_size) {
  const c10::InferenceMode no_gradients;
  std::vector<LogLikelihood> results(texts.size(), LogLikelihood{.is_greedy = true});
  const std::vector<Input> inputs = distinct_inputs(texts, model.config.training.seq_len);
  BatchScorer scorer(model, batch_size);
  ProgressDisplay progress("choices", "texts");
  // A batch has one list of longrope's factors, so a text's likelihood does not depend on its neighbours.
  const auto is_long = [&](const Input& input) { return model.shape.rope.is_long(std::ssize(input.tokens)); };
  for (size_t first = 0, rows = 0; first < inputs.size(); first += rows) {
    for (rows = 1; rows < static_cast<size_t>(batch_size) && first + rows < inputs.size(); ++rows)
      if (is_long(inputs[first + rows]) != is_long(inputs[first])) break;
    scorer.add(std::span(inputs).subspan(first, rows), texts, results);
    progress.show(static_cast<int64_t>(first + rows), std::ssize(inputs));
  }
  return results;
}

}  // namespace hearth::infer
