// SPDX-License-Identifier: Apache-2.0
#include "data/order/neox_order.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"

namespace hearth::data {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max() - uint64_t{1};

void require_32_bits(uint64_t count, const char* what) {
  if (count >= kMost)
    throw user_error(fmt::format("data.order = \"neox\" with {} {}", count, what),
                     fmt::format("its tables hold fewer than {}", kMost), "train fewer steps, or leave data.order out");
}

std::vector<uint32_t> shuffled_documents(uint64_t documents, uint64_t epochs, NumpyShuffle& shuffle) {
  std::vector<uint32_t> result;
  result.reserve(documents * epochs);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t document = 0; document < documents; ++document) result.push_back(static_cast<uint32_t>(document));
  }
  shuffle(result);
  return result;
}

// helpers.cpp, build_sample_idx: each sequence takes seq_len + 1 tokens, and the next one begins with its last.
void cut_sequences(std::span<const uint32_t> lengths, int64_t seq_len, uint64_t sequences, NeoxMaps& maps) {
  uint64_t place = 0;
  int64_t offset = 0;
  for (uint64_t sequence = 0;; ++sequence) {
    maps.places.push_back(static_cast<uint32_t>(place));
    maps.offsets.push_back(static_cast<uint32_t>(offset));
    if (sequence == sequences) return;
    for (int64_t missing = seq_len + 1; missing > 0;) {
      const int64_t in_document = lengths[maps.documents[place]] - offset;
      missing -= in_document;
      if (missing <= 0) {
        offset += missing + in_document - 1;
      } else {
        ++place;
        offset = 0;
      }
    }
  }
}

// Adds tokens [offset, end) of each document of the sequence. The sequence's last token is only a label.
void add_window(const NeoxMaps& maps, size_t sequence, std::span<const int64_t> begins, WindowTableBuilder& builder) {
  const uint32_t last = maps.places[sequence + 1];
  for (uint32_t place = maps.places[sequence]; place <= last; ++place) {
    const uint32_t document = maps.documents[place];
    const int64_t begin = place == maps.places[sequence] ? maps.offsets[sequence] : 0;
    const int64_t end = place == last ? maps.offsets[sequence + 1] : begins[document + 1] - begins[document];
    RowPart part;
    part.first_token = begins[document] + begin;
    part.num_inputs = end - begin;
    part.label_after = place == last;
    if (part.num_tokens() > 0) builder.add(part);
  }
  builder.end_window();
}

}  // namespace

// NumPy masks a word to the number of bits of `most`, and draws again while the result is larger.
uint32_t NumpyShuffle::draw(uint32_t most) {
  const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
  uint32_t value = 0;
  do value = static_cast<uint32_t>(engine_()) & mask;
  while (value > most);
  return value;
}

void NumpyShuffle::operator()(std::span<uint32_t> values) {
  HEARTH_CHECK(values.size() <= uint64_t{1} << 32);
  for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[draw(static_cast<uint32_t>(i))]);
}

NeoxMaps neox_maps(std::span<const uint32_t> lengths, int64_t seq_len, uint64_t samples, uint32_t seed) {
  const uint64_t tokens = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  HEARTH_CHECK(tokens > 0 && samples > 0 && seq_len > 0);
  const auto length = static_cast<uint64_t>(seq_len);
  require_32_bits(samples, "sequences");
  // The least number of epochs with (epochs * tokens - 1) / seq_len >= samples.
  const auto epochs =
      static_cast<uint64_t>(div_ceil(static_cast<int64_t>(samples * length + 1), static_cast<int64_t>(tokens)));
  const uint64_t sequences = (epochs * tokens - 1) / length;
  require_32_bits(sequences, "sequences");
  require_32_bits(lengths.size() * epochs, "documents in all epochs");
  NumpyShuffle shuffle(seed);
  NeoxMaps maps;
  maps.epochs = static_cast<int64_t>(epochs);
  maps.documents = shuffled_documents(lengths.size(), epochs, shuffle);
  cut_sequences(lengths, seq_len, sequences, maps);
  maps.shuffle.resize(sequences);
  std::iota(maps.shuffle.begin(), maps.shuffle.end(), uint32_t{0});
  shuffle(maps.shuffle);
  return maps;
}

TableArrays neox_window_table(const Split& split, int64_t seq_len, uint64_t samples, uint32_t seed) {
  const std::vector<int64_t> begins = split.document_begins(0, split.documents() + 1);
  std::vector<uint32_t> lengths;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    require_32_bits(static_cast<uint64_t>(begins[i + 1] - begins[i]), "tokens in one document");
    lengths.push_back(static_cast<uint32_t>(begins[i + 1] - begins[i]));
  }
  NeoxMaps maps = neox_maps(lengths, seq_len, samples, seed);
  WindowTableBuilder builder;
  for (size_t sequence = 0; sequence < maps.shuffle.size(); ++sequence) add_window(maps, sequence, begins, builder);
  return builder.finish(maps.epochs, std::move(maps.shuffle));
}

// In double precision and with GPT-NeoX's order of operations: the results are rounded up.
std::vector<uint64_t> neox_samples(std::span<const double> weights, uint64_t samples) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> result;
  for (const double weight : weights)
    result.push_back(static_cast<uint64_t>(std::ceil(static_cast<double>(samples) * (weight / sum) * 1.005)));
  return result;
}

}  // namespace hearth::data
