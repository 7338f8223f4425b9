// SPDX-License-Identifier: Apache-2.0
#include "commands/recordings/array_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hearth::commands {
namespace {

constexpr int64_t kBinsShown = 100;

char shown(uint8_t count) { return count == 0 ? '.' : count < 10 ? static_cast<char>('0' + count) : '+'; }

// One line per neuron, with its bins from `first_bin` on.
std::vector<std::string> draw_tokens(const recordings::ArrayStream& stream, recordings::ArrayShape shape, int64_t first,
                                     const std::vector<int32_t>& ids, int64_t first_bin, int64_t bins) {
  const recordings::PatchShape cut = stream.vocabulary().patch_shape();
  const int64_t length = stream.column_tokens(shape), neurons = stream.neurons(shape);
  std::vector<std::string> lines(static_cast<size_t>(neurons), std::string(static_cast<size_t>(bins), ' '));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t place = first + static_cast<int64_t>(i);
    const auto patch = stream.vocabulary().patch_of(static_cast<uint32_t>(ids[i]));
    for (size_t cell = 0; cell < patch.size(); ++cell) {
      const int64_t neuron = (place % length - 1) * cut.neurons + static_cast<int64_t>(cell) / cut.bins;
      const int64_t bin = place / length * cut.bins + static_cast<int64_t>(cell) % cut.bins - first_bin;
      if (neuron < neurons && bin < bins)
        lines[static_cast<size_t>(neuron)][static_cast<size_t>(bin)] = shown(patch[cell]);
    }
  }
  return lines;
}

}  // namespace

void print_array_labels(const data::Split& split, int64_t document) {
  const data::ArrayInfo info = split.array(document);
  fmt::print("    {} neurons x {} time bins", info.shape.neurons, info.shape.bins);
  const int64_t neurons = split.arrays()->neurons(info.shape);
  if (neurons != info.shape.neurons) fmt::print(", read as {} neurons", neurons);
  for (size_t i = 0; i < info.labels.size(); ++i)
    if (!info.labels[i].empty()) fmt::print(", {} {}", recordings::kLabelNames[i], info.labels[i]);
  fmt::print("\n");
}

void print_array(const data::Split& split, int64_t document, int64_t begin, int64_t end, const data::Draw& draw,
                 int64_t neurons_shown) {
  if (begin == end) return;
  const recordings::ArrayStream& stream = *split.arrays();
  const recordings::ArrayShape shape = split.array(document).shape;
  const int64_t first = begin - split.document_begin(document);
  const auto [first_bin, end_bin] = stream.bins_of(shape, first, end - begin);
  const int64_t bins = std::min(end_bin - first_bin, kBinsShown);
  std::vector<int32_t> ids(static_cast<size_t>(end - begin));
  split.read(begin, ids, draw);
  const auto lines = draw_tokens(stream, shape, first, ids, first_bin, bins);
  fmt::print("    time bins {} to {}{}\n", first_bin, end_bin,
             bins < end_bin - first_bin ? fmt::format(", the first {} of them", bins) : "");
  const auto neurons = static_cast<int64_t>(lines.size());
  for (int64_t i = 0; i < std::min(neurons, neurons_shown); ++i)
    fmt::print("    | {}\n", lines[static_cast<size_t>(i)]);
  if (neurons > neurons_shown) fmt::print("    and {} more neurons\n", neurons - neurons_shown);
}

}  // namespace hearth::commands
