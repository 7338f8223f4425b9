// SPDX-License-Identifier: Apache-2.0
#include "infer/generate_array.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/random.h"
#include "infer/decoding.h"
#include "recordings/prompt.h"

namespace hearth::infer {

recordings::ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins,
                                          int64_t n_fixed, const std::string& source) {
  return recordings::read_array_prompt(*model.tokenizer->arrays(), path,
                                       {.context_bins = context_bins,
                                        .neurons = n_fixed < 0 ? model.manifest.n_fixed : n_fixed,
                                        .source = source,
                                        .context_source = "--context",
                                        .why = fmt::format("{} continues arrays of counts: its tokenizer is {}",
                                                           model.folder.string(), model.manifest.tokenizer)});
}

GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show) {
  const c10::InferenceMode no_gradients;
  const recordings::ArrayVocabulary& tokenizer = *model.tokenizer->arrays();
  const int64_t neurons = request.prompt.shape.neurons, column_tokens = recordings::column_tokens(tokenizer, neurons);
  std::vector<int32_t> context = recordings::array_prompt_tokens(tokenizer, request.prompt);

  GenerationCounts counts{std::ssize(context) - 1, 0, false};
  const auto choices = static_cast<size_t>(recordings::num_patch_ids(tokenizer));
  const RandomKey key = random_key(request.seed, "generate");
  Decoding decoding(model, std::move(context));
  const int64_t columns = div_ceil(request.max_tokens, column_tokens);
  for (int64_t column = 0; column < columns; ++column) {
    if (column > 0) decoding.append(static_cast<int32_t>(tokenizer.bos()));
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
    for (const auto& bin : recordings::bins_of_column(tokenizer, ids, neurons)) show(bin);
  }
  return counts;
}

}  // namespace hearth::infer
