#include "train/libtorch_error.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <optional>

namespace hearth::train {
namespace {

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
  EXPECT_NE(error->fix().find("training.local_batch_size"), std::string::npos);
}

// As c10_cuda words it.
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
  EXPECT_NE(error->why().find("2x3"), std::string::npos) << error->what();
  EXPECT_EQ(std::string(error->what()).find("frame #"), std::string::npos) << error->what();
}

}  // namespace
}  // namespace hearth::train
