// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/errors.h"

namespace hearth::plan {
namespace {

using test::error_of;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;

std::vector<int64_t> sizes_of(const std::vector<StageLayers>& stages) {
  std::vector<int64_t> sizes;
  for (const StageLayers& stage : stages) sizes.push_back(stage.size());
  return sizes;
}

// torchtitan's rule, restated: equal shares of the layers and the work of embedding and output, where the first stages
// take one more each.
std::vector<int64_t> shares(int64_t layers, int64_t stages, int64_t first, int64_t last) {
  const int64_t work = layers + first + last;
  std::vector<int64_t> sizes;
  for (int64_t s = 0; s < stages; ++s)
    sizes.push_back(work / stages + (s < work % stages ? 1 : 0) - (s == 0 ? first : 0) - (s == stages - 1 ? last : 0));
  return sizes;
}

TEST(PipelineStages, AreTorchtitansWhereEachStageHasALayer) {
  int64_t compared = 0;
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t stages = 1; stages <= layers; ++stages) {
      for (int64_t less = 0; less < 9; ++less) {
        const std::vector<StageLayers> got = stage_layers(layers, stages, less / 3, less % 3);
        EXPECT_THAT(sizes_of(got), Each(Ge(1)));
        EXPECT_EQ(got.front().begin, 0);
        EXPECT_EQ(got.back().end, layers);
        for (size_t s = 1; s < got.size(); ++s) ASSERT_EQ(got[s].begin, got[s - 1].end);
        const std::vector<int64_t> expected = shares(layers, stages, less / 3, less % 3);
        if (*std::min_element(expected.begin(), expected.end()) < 1) continue;
        ASSERT_EQ(sizes_of(got), expected) << layers << " layers, " << stages << " stages";
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 4000);
}

TEST(PipelineStages, OutputAndEmbeddingCountAsLayers) {
  EXPECT_THAT(sizes_of(stage_layers(32, 8)), ElementsAre(4, 5, 4, 4, 4, 4, 4, 3));
  EXPECT_THAT(sizes_of(stage_layers(32, 8, 0, 0)), Each(4));
  EXPECT_THAT(sizes_of(stage_layers(32, 4, 0, 4)), ElementsAre(9, 9, 9, 5));
  // torchtitan's last stage has no layer here.
  EXPECT_THAT(sizes_of(stage_layers(4, 4)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(stage_layers(3, 2, 0, 1), ElementsAre(StageLayers{0, 2}, StageLayers{2, 3}));
}

TEST(PipelineStages, MoreStagesThanLayersIsAnError) {
  for (const int64_t stages : {5, 0})
    EXPECT_EQ(error_of([&] { stage_layers(4, stages); }).why(),
              "there has to be a stage, and each stage has at least one layer");
  EXPECT_EQ(error_of([] { stage_layers(4, 8); }).message(), "4 layers cannot be cut into 8 stages of a pipeline");
  EXPECT_EQ(error_of([] { stage_layers(4, 2, 0, -1); }).message(),
            "parallelism.pipeline_parallel_last_stage_less_layers is -1");
}

}  // namespace
}  // namespace hearth::plan
