// SPDX-License-Identifier: Apache-2.0
#include "recordings/array_stream.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/quantity.h"
#include "recordings/patch_file.h"

namespace hearth::recordings {

int64_t ArrayStream::column_tokens(ArrayShape shape) const {
  return 1 + div_ceil(neurons(shape), vocabulary_.patch_shape().neurons);
}

int64_t ArrayStream::tokens(ArrayShape shape) const {
  return div_ceil(shape.bins, vocabulary_.patch_shape().bins) * column_tokens(shape);
}

int64_t ArrayStream::crops(ArrayShape shape) const {
  return n_fixed_ > 0 && shape.neurons > n_fixed_ ? shape.neurons - n_fixed_ + 1 : 1;
}

std::pair<int64_t, int64_t> ArrayStream::bins_of(ArrayShape shape, int64_t first, int64_t count) const {
  const int64_t length = column_tokens(shape), bins = vocabulary_.patch_shape().bins;
  return {first / length * bins, std::min(shape.bins, ((first + count - 1) / length + 1) * bins)};
}

void gather_patch(ArrayShape array, const uint8_t* counts, int64_t neurons, int64_t crop, PatchShape shape, int64_t row,
                  int64_t column, std::span<uint8_t> patch) {
  std::fill(patch.begin(), patch.end(), uint8_t{0});
  const int64_t first_bin = column * shape.bins, end_bin = std::min(array.bins, first_bin + shape.bins);
  const int64_t first = row * shape.neurons, end = std::min(neurons, first + shape.neurons);
  for (int64_t i = first; i < end; ++i) {
    const int64_t neuron = crop + i % array.neurons;  // crop is 0 if i passes the last
    uint8_t* to = patch.data() + (i - first) * shape.bins;
    for (int64_t bin = first_bin; bin < end_bin; ++bin) *to++ = counts[bin * array.neurons + neuron];
  }
}

void ArrayStream::read(ArrayShape shape, const uint8_t* counts, int64_t crop, int64_t first,
                       std::span<int32_t> out) const {
  HEARTH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(shape) && crop < crops(shape));
  const int64_t length = column_tokens(shape);
  const PatchShape cut = vocabulary_.patch_shape();
  const auto bos = static_cast<int32_t>(vocabulary_.bos());
  const int largest = vocabulary_.largest_count();
  std::array<uint8_t, kMostPatchCells> memory;
  const auto patch = std::span(memory).first(static_cast<size_t>(cut.cells()));
  int64_t column = first / length, place = first % length;
  for (int32_t& token : out) {
    if (place == 0) {
      token = bos;
    } else {
      gather_patch(shape, counts, neurons(shape), crop, cut, place - 1, column, patch);
      if (*std::max_element(patch.begin(), patch.end()) > largest)
        throw damaged(fmt::format("an array holds a count above {}", largest), "it has no token",
                      "build the dataset again");
      token = static_cast<int32_t>(vocabulary_.id_of(patch));
    }
    if (++place == length) place = 0, ++column;
  }
}

}  // namespace hearth::recordings
