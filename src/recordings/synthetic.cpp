// SPDX-License-Identifier: Apache-2.0
#include "recordings/synthetic.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "formats/npy.h"
#include "recordings/labels_file.h"

namespace hearth::recordings {

SpikeArray synthetic_spikes(uint64_t seed, int64_t row) {
  const RandomKey key = random_key(seed, fmt::format("synthetic spikes:{}", row));
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random_u64(key, drawn++) % n); };
  SpikeArray array;
  array.shape = {10 + below(990), 100 + below(1900)};
  array.labels = {"synthetic", fmt::format("{}", seed), fmt::format("{}", row), "synthetic"};
  const auto neurons = static_cast<size_t>(array.shape.neurons);
  std::vector<size_t> order(neurons);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<uint8_t> bin(neurons);
  for (size_t i = 0; i < neurons / 10; ++i) {
    std::swap(order[i], order[i + static_cast<size_t>(below(neurons - i))]);
    bin[order[i]] = 1;
  }
  for (int64_t b = 0; b < array.shape.bins; ++b) array.counts.insert(array.counts.end(), bin.begin(), bin.end());
  return array;
}

void write_synthetic_spikes(const Path& folder, uint64_t seed, int64_t rows) {
  if (path_exists(folder) && !(std::filesystem::is_directory(folder) && list_folder(folder).empty()))
    throw user_error(fmt::format("{} exists already", folder.string()), "", "choose another --out");
  make_folders(folder);
  std::string labels;
  for (int64_t row = 0; row < rows; ++row) {
    const SpikeArray array = synthetic_spikes(seed, row);
    const std::string name = fmt::format("row-{:06}.npy", row);
    const int64_t shape[] = {array.shape.neurons, array.shape.bins};
    std::string file = formats::npy_header("|u1", shape);
    // Back to [neurons, bins].
    const std::vector<uint8_t> counts = time_major(array.counts, {array.shape.bins, array.shape.neurons});
    file.append(reinterpret_cast<const char*>(counts.data()), counts.size());
    write_file_atomic(folder / name, file);
    nlohmann::ordered_json line = {{"file_name", name}};
    for (size_t i = 0; i < kLabelNames.size(); ++i) line[std::string(kLabelNames[i])] = array.labels[i];
    labels += line.dump() + "\n";
  }
  write_file_atomic(folder / kLabelsFile, labels);
}

}  // namespace hearth::recordings
