// SPDX-License-Identifier: Apache-2.0
#include "recordings/prompt.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "recordings/array_file.h"
#include "recordings/array_stream.h"

namespace hearth::recordings {
namespace {

constexpr int64_t kMostCells = 256 << 20;

// The array in the file. `fault` says what is wrong with it, and stays empty if nothing is.
SpikeArray read_recording(const Path& path, std::string& fault) {
  const MappedFile file(path);
  try {
    ReadArray found = read_array(file.bytes(), kMostCells);
    fault = found.fault == ArrayFault::kTooLong ? fmt::format("it has more than {} counts", kMostCells) : found.why;
    return std::move(found.array);
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged && e.code() != ExitCode::kUser) throw;
    fault = e.why().empty() ? e.message() : fmt::format("{}: {}", e.message(), e.why());
    return {};
  }
}

SpikeArray with_neurons(const SpikeArray& array, int64_t neurons) {
  SpikeArray result = array;
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
SpikeArray cut_after(SpikeArray& array, int64_t bins) {
  SpikeArray rest = array;
  rest.shape.bins = array.shape.bins - bins;
  const auto at = bins * array.shape.neurons;
  rest.counts.erase(rest.counts.begin(), rest.counts.begin() + at);
  array.shape.bins = bins;
  array.counts.resize(static_cast<size_t>(at));
  return rest;
}

}  // namespace

ArrayPrompt read_array_prompt(const ArrayVocabulary& vocabulary, const std::string& path,
                              const ArrayPromptOptions& options) {
  const std::string &source = options.source, &why = options.why;
  const char* fix = "give a .npy of uint8, neurons x time bins (0 bins are enough: numpy.zeros((100, 0), numpy.uint8))";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw user_error(fmt::format("{}: there is no file \"{}\"", source, path), why, fix);
  std::string fault;
  SpikeArray prompt = read_recording(path, fault);
  if (!fault.empty()) throw user_error(fmt::format("{} {}: {}", source, path, fault), why, fix);
  if (prompt.shape.neurons == 0) throw user_error(fmt::format("{} {}: it has no neurons", source, path), why, fix);
  if (options.neurons > 0) prompt = with_neurons(prompt, options.neurons);
  if (options.context_bins > prompt.shape.bins)
    throw user_error(fmt::format("{} {}: {} has {} time bins", options.context_source, options.context_bins, path,
                                 prompt.shape.bins),
                     {}, "give fewer, or a longer recording");
  const SpikeArray after = cut_after(prompt, options.context_bins > 0 ? options.context_bins : prompt.shape.bins);
  const int64_t left_out = prompt.shape.bins % vocabulary.patch_shape().bins;
  prompt.shape.bins -= left_out;
  prompt.counts.erase(prompt.counts.begin(), prompt.counts.begin() + left_out * prompt.shape.neurons);
  const auto largest = std::ranges::max_element(prompt.counts);
  if (largest != prompt.counts.end() && *largest > vocabulary.largest_count())
    throw user_error(fmt::format("{} {}: it has the count {}", source, path, *largest),
                     fmt::format("{}; its largest count is {}", why, vocabulary.largest_count()), fix);
  return {std::move(prompt), after};
}

std::vector<int32_t> array_prompt_tokens(const ArrayVocabulary& vocabulary, const SpikeArray& context) {
  const ArrayStream stream(vocabulary, 0);
  std::vector<int32_t> tokens(static_cast<size_t>(stream.tokens(context.shape)));
  stream.read(context.shape, context.counts.data(), 0, 0, tokens);
  tokens.push_back(static_cast<int32_t>(vocabulary.bos()));
  return tokens;
}

int64_t column_tokens(const ArrayVocabulary& vocabulary, int64_t neurons) {
  return ArrayStream(vocabulary, 0).column_tokens({.neurons = neurons, .bins = 1});
}

int64_t num_patch_ids(const ArrayVocabulary& vocabulary) {
  uint32_t end = vocabulary.bos();
  while (end > 0 && vocabulary.patch_of(end - 1).empty()) --end;
  return end;
}

std::vector<std::vector<uint8_t>> bins_of_column(const ArrayVocabulary& vocabulary, const std::vector<uint32_t>& ids,
                                                 int64_t neurons) {
  const PatchShape cut = vocabulary.patch_shape();
  std::vector<std::vector<uint8_t>> bins(static_cast<size_t>(cut.bins));
  for (const uint32_t id : ids) {
    const auto patch = vocabulary.patch_of(id);
    for (size_t cell = 0; cell < patch.size(); ++cell) bins[cell % bins.size()].push_back(patch[cell]);
  }
  for (auto& bin : bins) bin.resize(static_cast<size_t>(neurons));  // the last patch may contain more neurons
  return bins;
}

}  // namespace hearth::recordings
