// SPDX-License-Identifier: Apache-2.0
// DeepSpeed divides the layers of GPT-NeoX by pipe_partition_method "type:transformer|mlp": a layer counts if its class
// or function has one of these words in its name. These are the blocks and the two functions around them, layers 1 to
// L + 2. Source: deepspeed/runtime/pipe/module.py, and partition_balanced() in deepspeed/runtime/utils.py.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "convert/neox/rank.h"

namespace hearth::convert {
namespace {

// Both rules of DeepSpeed get the number of counted layers among the first i of them, for each i from 0, and return the
// first layer of each stage, and behind it their number.
using Counts = std::vector<double>;
using Bounds = std::vector<int64_t>;

// Since December 2023: of all divisions, the search compares the largest and the smallest stage. A later border wins a
// draw.
Bounds smallest_difference(const Counts& before, int64_t stages) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  struct Best {
    double difference = kNone, most = kNone, least = kNone;
    size_t from = 0;
  };
  const size_t layers = before.size() - 1, m = static_cast<size_t>(stages);
  std::vector<std::vector<Best>> best(layers + 1, std::vector<Best>(m + 1));
  best[0][0] = {0, 0, kNone, 0};
  for (size_t i = 1; i <= layers; ++i) {
    for (size_t j = 1; j <= std::min(i, m); ++j) {
      for (size_t k = 0; k < i; ++k) {
        const double last = before[i] - before[k], most = std::max(best[k][j - 1].most, last),
                     least = std::min(best[k][j - 1].least, last);
        if (best[i][j].difference >= most - least) best[i][j] = {most - least, most, least, k};
      }
    }
  }
  Bounds bounds(m + 1, static_cast<int64_t>(layers));
  for (size_t j = m; j > 0; --j) bounds[j - 1] = static_cast<int64_t>(best[static_cast<size_t>(bounds[j])][j].from);
  return bounds;
}

struct Trial {
  Bounds bounds;
  bool fits;
};

// Stages of at most `limit` counted layers, as far as the layers go.
Trial fill_stages(const Counts& before, int64_t stages, double limit) {
  const auto sums = before.begin() + 1;  // with each layer
  const int64_t layers = before.end() - sums, chunk = layers / stages;
  Trial trial{Bounds(static_cast<size_t>(stages) + 1, layers), false};
  trial.bounds[0] = 0;
  double end = limit;
  for (int64_t stage = 1, step = chunk; stage < stages; ++stage) {
    while (step < layers && sums[step] < end) step += chunk;
    const int64_t bound = std::lower_bound(sums + (step - chunk), sums + std::min(step, layers), end) - sums;
    trial.bounds[static_cast<size_t>(stage)] = bound;
    if (bound == layers) {
      trial.fits = before.back() - sums[trial.bounds[static_cast<size_t>(stage) - 1]] < limit;
      return trial;
    }
    end = sums[bound - 1] + limit;
  }
  trial.fits = end >= before.back();
  return trial;
}

// Until then: a search for the smallest largest stage. Stages are filled from the front, so the last ones may be empty.
Bounds smallest_maximum(const Counts& before, int64_t stages) {
  constexpr double kClose = 1e-3;
  double lower = before.back() / static_cast<double>(stages), upper = before.back();
  while (upper > lower + kClose) {
    const double middle = lower + (upper - lower) / 2;
    if (fill_stages(before, stages, middle).fits)
      upper = middle;
    else
      lower = middle + kClose;
  }
  return fill_stages(before, stages, upper).bounds;
}

}  // namespace

std::vector<int64_t> neox_stages(const plan::ModelShape& s, int64_t stages, QkvLayout layout) {
  if (stages < 1 || stages > s.L())
    throw user_error(fmt::format("--pipeline-parallel {} does not divide {} layers", stages, s.L()), {},
                     fmt::format("give a number of stages from 1 to {}", s.L()));
  Counts before;
  for (int64_t i = 0; i <= s.L() + 5; ++i)
    before.push_back(static_cast<double>(std::clamp<int64_t>(i - 1, 0, s.L() + 2)));
  Bounds bounds = layout == QkvLayout::kSlots ? smallest_maximum(before, stages) : smallest_difference(before, stages);
  std::vector<std::string> blocks;
  bool all_train = true;
  for (size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
    const int64_t count = std::min(bounds[stage + 1], s.L() + 2) - std::max<int64_t>(bounds[stage], 2);
    const bool has_norm = count > 0 || (bounds[stage] <= s.L() + 3 && bounds[stage + 1] > s.L() + 3);
    all_train = all_train && has_norm;
    blocks.push_back(fmt::format("{}", std::max<int64_t>(count, 0)));
  }
  if (!all_train)
    throw user_error(fmt::format("--pipeline-parallel {} does not divide {} layers", stages, s.L()),
                     fmt::format("GPT-NeoX would give its stages {} of them, and DeepSpeed fails where one has no norm",
                                 join(blocks)),
                     "give another number of stages");
  return bounds;
}

}  // namespace hearth::convert
