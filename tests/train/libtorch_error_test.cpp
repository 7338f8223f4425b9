// SPDX-License-Identifier: Apache-2.0
#include "train/libtorch_error.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

template <typename Body>
std::optional<Error> translated(Body body) {
  try {
    body();
  } catch (const c10::Error& e) {
    return from_libtorch(e);
  }
  return std::nullopt;
}

TEST(LibtorchError, MemoryThatIsNotToBeHadSaysWhatToMakeSmaller) {
  const auto error = translated([] { at::empty({int64_t{1} << 50}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ExitCode::kHardware);
  EXPECT_THAT(error->fix(), HasSubstr("training.local_batch_size"));
}

// The wording of c10_cuda.
TEST(LibtorchError, AGpuThatFailsIsHardware) {
  const auto error = translated([] { TORCH_CHECK(false, "CUDA error: an illegal memory access was encountered"); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ExitCode::kHardware);
  EXPECT_EQ(error->message(), "the GPU failed");
}

TEST(LibtorchError, AnythingElseIsOurBugAndHasNoStackDump) {
  const auto error = translated([] { at::mm(at::empty({2, 3}), at::empty({2, 3})); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ExitCode::kBug);
  EXPECT_THAT(error->why(), HasSubstr("2x3")) << error->what();
  EXPECT_THAT(std::string(error->what()), Not(HasSubstr("frame #"))) << error->what();
}

}  // namespace
}  // namespace hearth::train
