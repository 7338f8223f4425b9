#include "infer/generate_array.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/random.h"
#include "data/formats/npy.h"
#include "data/shard/array_stream.h"
#include "data/source/npy_source.h"
#include "infer/decoding.h"

namespace hearth::infer {
namespace {

// The number of ids with a patch. They begin at 0 and end at BOS or earlier.
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
  for (auto& bin : bins) bin.resize(static_cast<size_t>(neurons));  // the last patch may contain more neurons
  return bins;
}

data::SpikeArray with_neurons(const data::SpikeArray& array, int64_t neurons) {
  data::SpikeArray result = array;
  result.shape.neurons = neurons;
  result.counts.clear();
  for (int64_t bin = 0; bin < array.shape.bins; ++bin) {
    for (int64_t neuron = 0; neuron < neurons; ++neuron)
      result.counts.push_back(
          array.counts[static_cast<size_t>(bin * array.shape.neurons + neuron % array.shape.neurons)]);
  }
  return result;
}

// Keeps the first `bins` bins in `array` and returns the others.
data::SpikeArray cut_after(data::SpikeArray& array, int64_t bins) {
  data::SpikeArray rest = array;
  rest.shape.bins = array.shape.bins - bins;
  const auto at = bins * array.shape.neurons;
  rest.counts.erase(rest.counts.begin(), rest.counts.begin() + at);
  array.shape.bins = bins;
  array.counts.resize(static_cast<size_t>(at));
  return rest;
}

}  // namespace

ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins, int64_t n_fixed,
                              const std::string& source) {
  const tokenizer::ArrayTokenizer& tokenizer = *model.tokenizer->arrays();
  const std::string why = fmt::format("{} continues arrays of counts: its tokenizer is {}", model.folder.string(),
                                      model.manifest.tokenizer);
  const char* fix = "give a .npy of uint8, neurons x time bins (0 bins are enough: numpy.zeros((100, 0), numpy.uint8))";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw user_error(fmt::format("{}: there is no file \"{}\"", source, path), why, fix);
  data::SourceFile file;
  file.path = file.real_path = path;
  file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  file.format = data::Format::kNpy;
  data::Record record;
  data::open_npy_source(file, {})->next(record);
  if (record.array == nullptr) throw user_error(fmt::format("{} {}: {}", source, path, record.why), why, fix);
  data::SpikeArray prompt = *record.array;
  if (prompt.shape.neurons == 0) throw user_error(fmt::format("{} {}: it has no neurons", source, path), why, fix);
  const int64_t neurons = n_fixed < 0 ? model.manifest.n_fixed : n_fixed;
  if (neurons > 0) prompt = with_neurons(prompt, neurons);
  if (context_bins > prompt.shape.bins)
    throw user_error(fmt::format("--context {}: {} has {} time bins", context_bins, path, prompt.shape.bins), {},
                     "give fewer, or a longer recording");
  const data::SpikeArray after = cut_after(prompt, context_bins > 0 ? context_bins : prompt.shape.bins);
  const int64_t left_out = prompt.shape.bins % tokenizer.patch_shape().bins;
  prompt.shape.bins -= left_out;
  prompt.counts.erase(prompt.counts.begin(), prompt.counts.begin() + left_out * prompt.shape.neurons);
  const auto largest = std::max_element(prompt.counts.begin(), prompt.counts.end());
  if (largest != prompt.counts.end() && *largest > tokenizer.largest_count())
    throw user_error(fmt::format("{} {}: it has the count {}", source, path, *largest),
                     fmt::format("{}; its largest count is {}", why, tokenizer.largest_count()), fix);
  return {std::move(prompt), after};
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
    std::string content = data::npy_header("|u1", shape);
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
  const data::ArrayStream stream(tokenizer, 0);
  const data::ArrayShape shape = request.prompt.shape;
  const auto bos = static_cast<int32_t>(*tokenizer.bos());
  std::vector<int32_t> context(static_cast<size_t>(stream.tokens(shape)));
  stream.read(shape, request.prompt.counts.data(), 0, 0, context);
  context.push_back(bos);

  GenerationCounts counts{static_cast<int64_t>(context.size()) - 1, 0, false};
  const size_t choices = num_patch_ids(tokenizer);
  const RandomKey key = random_key(request.seed, "generate");
  Decoding decoding(model, std::move(context));
  const int64_t columns = div_ceil(request.max_tokens, stream.column_tokens(shape));
  for (int64_t column = 0; column < columns; ++column) {
    if (column > 0) decoding.append(bos);
    ++counts.generated_tokens;
    std::vector<uint32_t> ids;
    while (static_cast<int64_t>(ids.size()) + 1 < stream.column_tokens(shape)) {
      const std::vector<double> logits = decoding.logits();
      const double uniform = random_uniform(key, static_cast<uint64_t>(counts.generated_tokens));
      ids.push_back(
          static_cast<uint32_t>(model::sample_token(std::span(logits).first(choices), request.sampling, uniform)));
      decoding.append(static_cast<int32_t>(ids.back()));
      ++counts.generated_tokens;
    }
    for (const auto& bin : bins_of(ids, tokenizer, shape.neurons)) show(bin);
  }
  return counts;
}

}  // namespace hearth::infer
