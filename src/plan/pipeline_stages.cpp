// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace hearth::plan {
namespace {

void check_work(int64_t layers, const char* key) {
  if (layers < 0)
    throw user_error(fmt::format("{} is {}", key, layers), "it is a number of layers' work", "set it to 0 or more")
        .about(key);
}

}  // namespace

std::vector<StageLayers> stage_layers(int64_t num_layers, int64_t num_stages, int64_t first_stage_less_layers,
                                      int64_t last_stage_less_layers) {
  if (num_stages < 1 || num_stages > num_layers) {
    throw user_error(fmt::format("{} layers cannot be cut into {} stages of a pipeline", num_layers, num_stages),
                     "there has to be a stage, and each stage has at least one layer",
                     fmt::format("take 1 to {} stages: the product of parallelism.pipeline_parallel_degree and the "
                                 "stages per rank",
                                 num_layers))
        .about("parallelism.pipeline_parallel_degree");
  }
  check_work(first_stage_less_layers, "parallelism.pipeline_parallel_first_stage_less_layers");
  check_work(last_stage_less_layers, "parallelism.pipeline_parallel_last_stage_less_layers");
  std::vector<int64_t> sizes(static_cast<size_t>(num_stages), 1), work(sizes);
  work.front() += first_stage_less_layers;
  work.back() += last_stage_less_layers;
  for (int64_t layer = num_stages; layer < num_layers; ++layer) {
    const auto least = std::min_element(work.begin(), work.end());
    ++*least;
    ++sizes[static_cast<size_t>(least - work.begin())];
  }
  std::vector<StageLayers> stages;
  for (int64_t begin = 0; const int64_t size : sizes) {
    stages.push_back({begin, begin + size});
    begin += size;
  }
  return stages;
}

}  // namespace hearth::plan
