#include "train/generate_array.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/random.h"
#include "base/units.h"
#include "data/array_stream.h"
#include "data/npy_source.h"
#include "train/continuation.h"

namespace hearth::train {
namespace {

// The logits of ids that stand for a patch: those before BOS, or before where the patches end.
size_t num_patch_ids(const tokenizer::ArrayTokenizer& tokenizer) {
  uint32_t end = *tokenizer.bos();
  while (end > 0 && tokenizer.patch_of(end - 1).empty()) --end;
  return end;
}

// The time bins of a column of patches, [bins, neurons].
std::vector<std::vector<uint8_t>> bins_of(const std::vector<uint32_t>& ids, const tokenizer::ArrayTokenizer& tokenizer,
                                          int64_t neurons) {
  const tokenizer::PatchShape cut = tokenizer.patch_shape();
  std::vector<std::vector<uint8_t>> bins(static_cast<size_t>(cut.bins));
  for (const uint32_t id : ids) {
    const auto patch = tokenizer.patch_of(id);
    for (size_t cell = 0; cell < patch.size(); ++cell) bins[cell % bins.size()].push_back(patch[cell]);
  }
  for (auto& bin : bins) bin.resize(static_cast<size_t>(neurons));  // the last patch may reach past them
  return bins;
}

}  // namespace

data::SpikeArray read_prompt_array(const LoadedModel& model, const std::string& path) {
  const tokenizer::ArrayTokenizer& tokenizer = *model.tokenizer->arrays();
  const std::string why = fmt::format("{} continues arrays of counts: its tokenizer is {}", model.folder.string(),
                                      model.manifest.tokenizer);
  const char* fix = "give a .npy of uint8, neurons x time bins (none are needed: numpy.zeros((100, 0), numpy.uint8))";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw user_error(fmt::format("--prompt: there is no file \"{}\"", path), why, fix);
  data::SourceFile file;
  file.path = file.real_path = path;
  file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  file.format = data::Format::kNpy;
  data::Record record;
  data::open_npy_source(file, {})->next(record);
  if (record.array == nullptr) throw user_error(fmt::format("--prompt {}: {}", path, record.why), why, fix);
  data::SpikeArray prompt = *record.array;
  if (prompt.shape.neurons == 0) throw user_error(fmt::format("--prompt {}: it has no neurons", path), why, fix);
  const int64_t left_out = prompt.shape.bins % tokenizer.patch_shape().bins;
  prompt.shape.bins -= left_out;
  prompt.counts.erase(prompt.counts.begin(), prompt.counts.begin() + left_out * prompt.shape.neurons);
  const auto largest = std::max_element(prompt.counts.begin(), prompt.counts.end());
  if (largest != prompt.counts.end() && *largest > tokenizer.largest_count())
    throw user_error(fmt::format("--prompt {}: it has the count {}", path, *largest),
                     fmt::format("{}; the largest count of that is {}", why, tokenizer.largest_count()), fix);
  return prompt;
}

GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show) {
  const c10::InferenceMode no_gradients;
  const tokenizer::ArrayTokenizer& tokenizer = *model.tokenizer->arrays();
  const data::ArrayStream stream(tokenizer, 0);
  const data::ArrayShape shape = request.prompt.shape;
  const auto bos = static_cast<int32_t>(*tokenizer.bos());
  std::vector<int32_t> context(static_cast<size_t>(stream.tokens(shape)));
  stream.read(shape, request.prompt.counts.data(), 0, 0, context);
  context.push_back(bos);

  GenerationCounts counts{static_cast<int64_t>(context.size()) - 1, 0, false};
  const size_t choices = num_patch_ids(tokenizer);
  const RandomKey key = random_key(request.seed, "generate");
  Continuation continuation(model, std::move(context));
  const int64_t columns = div_ceil(request.max_tokens, stream.column_tokens(shape));
  for (int64_t column = 0; column < columns; ++column) {
    if (column > 0) continuation.append(bos);
    ++counts.generated_tokens;
    std::vector<uint32_t> ids;
    while (static_cast<int64_t>(ids.size()) + 1 < stream.column_tokens(shape)) {
      const std::vector<double> logits = continuation.logits();
      const double uniform = random_uniform(key, static_cast<uint64_t>(counts.generated_tokens));
      ids.push_back(static_cast<uint32_t>(sample_token(std::span(logits).first(choices), request.sampling, uniform)));
      continuation.append(static_cast<int32_t>(ids.back()));
      ++counts.generated_tokens;
    }
    for (const auto& bin : bins_of(ids, tokenizer, shape.neurons)) show(bin);
  }
  return counts;
}

}  // namespace hearth::train
