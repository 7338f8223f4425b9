#include "plan/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace hearth::plan {
namespace {

std::vector<StageLayers> ranges_of(const std::vector<int64_t>& sizes) {
  std::vector<StageLayers> stages;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    stages.push_back({begin, begin + size});
    begin += size;
  }
  return stages;
}

void check_counts(int64_t num_layers, int64_t num_stages) {
  if (num_stages < 1 || num_stages > num_layers) {
    throw user_error(fmt::format("{} layers cannot be cut into {} stages of a pipeline", num_layers, num_stages),
                     "there has to be a stage, and each stage has at least one layer",
                     fmt::format("take 1 to {} stages: the product of parallelism.pipeline_parallel_degree and the "
                                 "stages per rank",
                                 num_layers))
        .about("parallelism.pipeline_parallel_degree");
  }
}

void check_work(int64_t layers, const char* key) {
  if (layers < 0)
    throw user_error(fmt::format("{} is {}", key, layers), "it is a number of layers' work", "set it to 0 or more")
        .about(key);
}

}  // namespace

std::vector<StageLayers> stage_layers(int64_t num_layers, int64_t num_stages, int64_t first_stage_less_layers,
                                      int64_t last_stage_less_layers) {
  check_counts(num_layers, num_stages);
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
  return ranges_of(sizes);
}

std::vector<StageLayers> given_stage_layers(int64_t num_layers, int64_t num_stages,
                                            const std::vector<int64_t>& layers_of_stages) {
  check_counts(num_layers, num_stages);
  const int64_t sum = std::accumulate(layers_of_stages.begin(), layers_of_stages.end(), int64_t{0});
  const bool all_positive = std::all_of(layers_of_stages.begin(), layers_of_stages.end(), [](auto n) { return n > 0; });
  if (std::ssize(layers_of_stages) != num_stages || !all_positive || sum != num_layers) {
    throw user_error(fmt::format("stages of {} layers do not make up a model of {} layers in {} stages",
                                 fmt::join(layers_of_stages, ", "), num_layers, num_stages),
                     "each stage needs one number of at least 1, and together they are the model's layers",
                     "correct the numbers, or leave them out: the layers are then shared by work");
  }
  return ranges_of(layers_of_stages);
}

}  // namespace hearth::plan
