// SPDX-License-Identifier: Apache-2.0
#include "train/sample_texts.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/quantity.h"
#include "base/random.h"
#include "data/batch/masking.h"
#include "data/batch/prompt.h"
#include "decode/sampling.h"
#include "metrics/throughput.h"
#include "ops/tensor.h"
#include "plan/memory.h"
#include "trace/spans.h"

namespace hearth::train {
namespace {

std::vector<std::vector<uint8_t>> bins_of(const recordings::SpikeArray& array, int64_t first, int64_t count) {
  std::vector<std::vector<uint8_t>> bins;
  for (int64_t bin = first; bin < first + count; ++bin) {
    const auto begin = array.counts.begin() + bin * array.shape.neurons;
    bins.emplace_back(begin, begin + array.shape.neurons);
  }
  return bins;
}

}  // namespace

SampleTexts::SampleTexts(const run::Run& run, const plan::ParameterPlan& rank_plan, const comm::MeshGroups& groups,
                         comm::Control& control)
    : run_(run), plan_(rank_plan), groups_(groups), control_(control) {
  if (run.config.validation.generate.empty()) return;
  control.together("the tokenizer", [&] { tokenizer_ = run.data.sources().front().dataset.open_tokenizer(); });
  if (masked()) no_text_ = data::special_ids(*tokenizer_, run.shape.V);
  const recordings::ArrayVocabulary* const arrays = tokenizer_->arrays();
  if (arrays == nullptr) return;
  control.together("the recordings of validation.generate", [&] {
    for (const std::string& path : run.config.validation.generate)
      recordings_.push_back(
          recordings::read_array_prompt(*arrays, path,
                                        {.context_bins = run.config.validation.generate_context_bins,
                                         .neurons = run.data.n_fixed(),
                                         .source = "validation.generate",
                                         .context_source = "validation.generate_context_bins",
                                         .why = "the data are recordings, so that the model continues recordings"}));
  });
}

int64_t SampleTexts::column_tokens(size_t prompt) const {
  return recordings::column_tokens(*tokenizer_->arrays(), recordings_[prompt].context.shape.neurons);
}

std::vector<metrics::SampleText> SampleTexts::after(int64_t step, parallel::ShardedWeights& weights) {
  const std::vector<std::string>& prompts = run_.config.validation.generate;
  if (prompts.empty()) return {};
  const trace::SpanScope span(trace::SpanKind::kPhase, "samples");
  std::vector<Row> rows;
  for (size_t i = 0; i < prompts.size(); ++i) rows.push_back(row_of(i, step));
  const auto together = static_cast<size_t>(plan::sample_batch(run_.config, 0).B);
  std::vector<metrics::SampleText> texts;
  for (size_t first = 0; first < rows.size(); first += together) {
    std::vector<Row> some(rows.begin() + static_cast<std::ptrdiff_t>(first),
                          rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), first + together)));
    complete(some, weights);
    for (const Row& row : some) texts.push_back(record_of(row, step));
  }
  return texts;
}

metrics::SampleText SampleTexts::record_of(const Row& row, int64_t step) const {
  metrics::SampleText sample{.step = step,
                             .prompt = run_.config.validation.generate[row.prompt],
                             .tokens = std::ssize(row.made),
                             .ended = row.ended,
                             .seed = row.seed,
                             .time = metrics::wall_seconds()};
  if (!recordings_.empty()) {
    const recordings::ArrayPrompt& recording = recordings_[row.prompt];
    const int64_t neurons = recording.context.shape.neurons, length = column_tokens(row.prompt);
    metrics::SampleBins& bins = sample.bins;
    for (auto column = row.made.begin(); column != row.made.end(); column += length)
      for (auto& bin : recordings::bins_of_column(*tokenizer_->arrays(), {column + 1, column + length}, neurons))
        bins.made.push_back(std::move(bin));
    const auto count = std::ssize(bins.made);
    const int64_t before = std::min(count, recording.context.shape.bins);
    bins.before = bins_of(recording.context, recording.context.shape.bins - before, before);
    bins.real = bins_of(recording.after, 0, std::min(count, recording.after.shape.bins));
  } else if (masked()) {
    sample.text =
        data::MaskedPrompt{.ids = row.ids,
                           .start = std::ssize(data::document_start(*tokenizer_, run_.data.manifest().rules.bos))}
            .text(*tokenizer_);
  } else {
    for (const uint32_t id : row.made) tokenizer_->decode(id, sample.text);
  }
  return sample;
}

SampleTexts::Row SampleTexts::row_of(size_t prompt, int64_t step) const {
  const bool bos = run_.data.manifest().rules.bos;
  const std::string& text = run_.config.validation.generate[prompt];
  const RandomKey key = random_key(static_cast<uint64_t>(run_.config.training.seed), "sample texts");
  // 32 bits: short enough to be typed.
  Row row{.prompt = prompt,
          .seed = random_u64(random_key(random_u64(key, static_cast<uint64_t>(step)), "prompt"), prompt) >> 32U,
          .limit = run_.config.validation.generate_tokens,
          .ids = {}};
  if (masked()) {
    data::MaskedPrompt masked = data::masked_prompt(*tokenizer_, bos, run_.labels.masking->mask_id, text);
    row.ids = std::move(masked.ids);
    row.open = std::move(masked.open);
  } else if (!recordings_.empty()) {
    row.ids = recordings::array_prompt_tokens(*tokenizer_->arrays(), recordings_[prompt].context);
    row.made = {static_cast<uint32_t>(row.ids.back())};  // BOS
    row.limit = round_up(row.limit, column_tokens(prompt));
  } else {
    row.ids = data::prompt_tokens(*tokenizer_, bos, text);
  }
  return row;
}

bool SampleTexts::is_done(const Row& row) const {
  if (masked()) return row.open.empty();
  return row.ended || std::ssize(row.made) == row.limit;
}

// Places in `ids` whose logits are needed.
std::vector<int64_t> SampleTexts::asked(const Row& row) const {
  if (is_done(row)) return {};
  return masked() ? row.open : std::vector<int64_t>{std::ssize(row.ids) - 1};
}

void SampleTexts::complete(std::vector<Row>& rows, parallel::ShardedWeights& weights) {
  int64_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, std::ssize(row.ids) + (masked() ? 0 : row.limit));
  const int64_t S = plan::sample_batch(run_.config, longest).S;
  // Ranks of context parallel have the same weights, so each computes the whole sequences.
  plan::ModelShape shape = plan::model_part(run_.shape, run_.tensor(), 1, run_.experts());
  if (plan::samples_are_cached(run_.config)) {
    decode::ContextRows contexts(shape, plan_, weights, run_.seq_len(), S, run_.precision.compute, run_.device,
                                 std::ssize(rows));
    return complete(rows, contexts);
  }
  shape.sparse_labels = true;  // only the positions that are asked for go through the output matrix
  model::Transformer model(shape, plan_, std::ssize(rows), S,
                           {.dtype = run_.precision.compute,
                            .loss_chunk_tokens = plan::kSampleLossChunkTokens,
                            .device = run_.device,
                            .tensor = groups_.tensor(),
                            .experts = groups_.experts(),
                            .pipeline = groups_.pipeline(),
                            .pipeline_plan = run_.pipeline});
  complete(rows, model, weights);
}

void SampleTexts::take_all(std::vector<Row>& rows, const at::Tensor& logits_NV) const {
  size_t next = 0;
  const std::vector<Choice> choices = agree(rows, logits_NV);
  for (Row& row : rows)
    if (!is_done(row)) take(row, choices[next++]);
}

bool SampleTexts::all_done(const std::vector<Row>& rows) const {
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return is_done(row); });
}

void SampleTexts::complete(std::vector<Row>& rows, decode::ContextRows& contexts) const {
  for (size_t i = 0; i < rows.size(); ++i) contexts.begin(static_cast<int64_t>(i), rows[i].ids);
  while (!all_done(rows)) {
    std::vector<int64_t> open;
    std::vector<size_t> sizes;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!is_done(rows[i])) open.push_back(static_cast<int64_t>(i));
      sizes.push_back(rows[i].ids.size());
    }
    take_all(rows, contexts.logits(open));
    for (size_t i = 0; i < rows.size(); ++i)
      for (const int32_t token : std::span(rows[i].ids).subspan(sizes[i]))
        contexts.append(static_cast<int64_t>(i), token);
  }
}

void SampleTexts::complete(std::vector<Row>& rows, model::Transformer& model, parallel::ShardedWeights& weights) const {
  while (!all_done(rows)) {
    for (Row& row : rows) {
      const int64_t size = std::ssize(row.ids);
      row.visible = static_cast<size_t>(size - decode::shown(size - static_cast<int64_t>(row.visible), run_.seq_len()));
    }
    take_all(rows, logits(rows, model, weights));
  }
}

// [N, V]: those that the rows ask for, in their order; undefined on a rank without the last layers.
at::Tensor SampleTexts::logits(const std::vector<Row>& rows, model::Transformer& model,
                               parallel::ShardedWeights& weights) const {
  const int64_t S = model.tokens() / std::ssize(rows);
  std::vector<int32_t> tokens(static_cast<size_t>(model.tokens()), 0), starts;
  std::vector<int64_t> positions;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int64_t begin = static_cast<int64_t>(i) * S, length = std::ssize(row.ids) - static_cast<int64_t>(row.visible);
    std::copy(row.ids.begin() + static_cast<std::ptrdiff_t>(row.visible), row.ids.end(), tokens.begin() + begin);
    starts.push_back(static_cast<int32_t>(begin));
    if (length < S) starts.push_back(static_cast<int32_t>(begin + length));
    for (const int64_t place : asked(row)) positions.push_back(begin + place - static_cast<int64_t>(row.visible));
  }
  const at::Device device = model.device();
  model::MicroBatch batch;
  batch.tokens_T = ops::from_int32(tokens, device);
  batch.labels_T = batch.tokens_T;
  batch.counted_N = ops::from_int64({}, device);
  batch.document_starts_N = ops::from_int32(starts, device);
  batch.padding_starts_N = batch.document_starts_N;
  model.loss(ops::zeros({1, 2}, DType::kFloat64, device), weights, std::span(&batch, 1));
  if (!model.has_output()) return {};
  return model.logits(weights, ops::from_int64(positions, device));
}

SampleTexts::Choice SampleTexts::choose(const Row& row, const at::Tensor& logits_NV) const {
  const decode::SamplingOptions sampling{.temperature = run_.config.validation.generate_temperature};
  const double uniform =
      random_uniform(random_key(row.seed, masked() ? "fill" : "generate"), static_cast<uint64_t>(row.made.size()));
  const recordings::ArrayVocabulary* const arrays = tokenizer_->arrays();
  const int64_t V =
      arrays != nullptr ? recordings::num_patch_ids(*arrays) : std::min(logits_NV.size(1), tokenizer_->vocab_size());
  Choice choice{.asked = 0, .id = 0};
  std::vector<double> surest;
  double certainty = -1;
  for (int64_t i = 0; i < logits_NV.size(0); ++i) {
    std::vector<double> logits = ops::to_doubles(logits_NV.select(0, i).narrow(0, 0, V));
    for (size_t id = 0; masked() && id < logits.size(); ++id)
      if (no_text_[id]) logits[id] = -std::numeric_limits<double>::infinity();
    const double sure = masked() ? decode::certainty(logits) : 1;
    if (sure <= certainty) continue;
    certainty = sure;
    choice.asked = i;
    surest = std::move(logits);
  }
  choice.id = decode::sample_token(surest, sampling, uniform);
  return choice;
}

// One rank's choices: other ranks may round differently.
std::vector<SampleTexts::Choice> SampleTexts::agree(const std::vector<Row>& rows, const at::Tensor& logits_NV) const {
  mesh::Coordinates first = run_.place;
  first.dp_replicate = first.dp_shard = first.cp = first.tp = 0;
  std::vector<Choice> choices;
  if (logits_NV.defined() && first == run_.place) {
    int64_t begin = 0;
    for (const Row& row : rows) {
      const int64_t count = std::ssize(asked(row));
      if (count > 0) choices.push_back(choose(row, logits_NV.narrow(0, begin, count)));
      begin += count;
    }
  }
  const std::string mine(reinterpret_cast<const char*>(choices.data()), choices.size() * sizeof(Choice));
  const std::string bytes = control_.first("sampled tokens", mine);
  choices.resize(bytes.size() / sizeof(Choice));
  std::memcpy(choices.data(), bytes.data(), bytes.size());
  return choices;
}

void SampleTexts::take(Row& row, const Choice& choice) const {
  const auto id = static_cast<uint32_t>(choice.id);
  if (!masked() && tokenizer_->eos() == id) {
    row.ended = true;
    return;
  }
  const auto append = [&row](uint32_t token) {
    row.made.push_back(token);
    row.ids.push_back(static_cast<int32_t>(token));
  };
  if (!masked()) {
    append(id);
    if (!recordings_.empty() && !is_done(row) && std::ssize(row.made) % column_tokens(row.prompt) == 0)
      append(*tokenizer_->bos());
    return;
  }
  row.made.push_back(id);
  const auto open = row.open.begin() + choice.asked;
  row.ids[static_cast<size_t>(*open)] = static_cast<int32_t>(id);
  row.open.erase(open);
}

}  // namespace hearth::train
