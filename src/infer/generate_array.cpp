// SPDX-License-Identifier: Apache-2.0
#include "infer/generate_array.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/random.h"
#include "data/batch/array_prompt.h"
#include "formats/npy.h"
#include "infer/decoding.h"

namespace hearth::infer {
ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins, int64_t n_fixed,
                              const std::string& source) {
  return data::read_array_prompt(*model.tokenizer->arrays(), path,
                                 {.context_bins = context_bins,
                                  .neurons = n_fixed < 0 ? model.manifest.n_fixed : n_fixed,
                                  .source = source,
                                  .context_source = "--context",
                                  .why = fmt::format("{} continues arrays of counts: its tokenizer is {}",
                                                     model.folder.string(), model.manifest.tokenizer)});
}

report::Raster raster_of(const data::SpikeArray& array) {
  report::Raster raster;
  raster.neurons = array.shape.neurons;
  for (int64_t bin = 0; bin < array.shape.bins; ++bin) {
    const auto begin = array.counts.begin() + bin * array.shape.neurons;
    raster.bins.emplace_back(begin, begin + array.shape.neurons);
  }
  return raster;
}

void write_generated(const config::GenerateOptions& options, const ArrayPrompt& prompt, const report::Raster& whole) {
  const int64_t first = prompt.context.shape.bins, bins = static_cast<int64_t>(whole.bins.size()) - first;
  if (!options.out.empty()) {
    const int64_t shape[] = {whole.neurons, bins};
    std::string content = formats::npy_header("|u1", shape);
    for (int64_t neuron = 0; neuron < whole.neurons; ++neuron) {
      for (int64_t bin = first; bin < first + bins; ++bin)
        content += static_cast<char>(whole.bins[static_cast<size_t>(bin)][static_cast<size_t>(neuron)]);
    }
    write_file_atomic(options.out, content);
  }
  if (options.picture.empty()) return;
  report::Raster real = raster_of(prompt.context);
  const report::Raster after = raster_of(prompt.after);
  const auto shown = static_cast<std::ptrdiff_t>(std::min<size_t>(after.bins.size(), static_cast<size_t>(bins)));
  real.bins.insert(real.bins.end(), after.bins.begin(), after.bins.begin() + shown);
  write_file_atomic(options.picture, report::raster_png(real, whole, first));
}

GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show) {
  const c10::InferenceMode no_gradients;
  const tokenizer::ArrayTokenizer& tokenizer = *model.tokenizer->arrays();
  const int64_t neurons = request.prompt.shape.neurons, column_tokens = data::column_tokens(tokenizer, neurons);
  std::vector<int32_t> context = data::array_prompt_tokens(tokenizer, request.prompt);

  GenerationCounts counts{std::ssize(context) - 1, 0, false};
  const auto choices = static_cast<size_t>(data::num_patch_ids(tokenizer));
  const RandomKey key = random_key(request.seed, "generate");
  Decoding decoding(model, std::move(context));
  const int64_t columns = div_ceil(request.max_tokens, column_tokens);
  for (int64_t column = 0; column < columns; ++column) {
    if (column > 0) decoding.append(static_cast<int32_t>(*tokenizer.bos()));
    ++counts.generated_tokens;
    std::vector<uint32_t> ids;
    while (std::ssize(ids) + 1 < column_tokens) {
      const std::vector<double> logits = decoding.logits();
      const double uniform = random_uniform(key, static_cast<uint64_t>(counts.generated_tokens));
      ids.push_back(
          static_cast<uint32_t>(decode::sample_token(std::span(logits).first(choices), request.sampling, uniform)));
      decoding.append(static_cast<int32_t>(ids.back()));
      ++counts.generated_tokens;
    }
    for (const auto& bin : data::bins_of_column(tokenizer, ids, neurons)) show(bin);
  }
  return counts;
}

}  // namespace hearth::infer
