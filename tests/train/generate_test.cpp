#include "train/generate.h"

#include <gtest/gtest.h>

#include "tiny_run.h"

namespace hearth::train {
namespace {

struct Generate : ::testing::Test {
  static void SetUpTestSuite() {
    scratch = new test::ScratchFolder;
    build_tiny_data(*scratch);
    config::RunConfig c = tiny_config(*scratch);
    c.training.steps = 60;
    train(c);
  }
  static void TearDownTestSuite() { delete scratch; }

  static std::string text(const Generation& request, GenerationCounts* counts = nullptr) {
    const auto model = load_model(*scratch / "run");
    std::string result;
    const GenerationCounts c = generate(*model, request, [&](std::string_view part) { result += part; });
    if (counts != nullptr) *counts = c;
    return result;
  }

  static test::ScratchFolder* scratch;
};
test::ScratchFolder* Generate::scratch = nullptr;

TEST_F(Generate, TheSameSeedGivesTheSameTextAndAnotherOneAnother) {
  const Generation request{.prompt = "ka", .max_tokens = 100, .seed = 7};
  const std::string first = text(request);
  EXPECT_EQ(text(request), first);
  EXPECT_EQ(first.substr(0, 2), "ka");
  EXPECT_NE(text({.prompt = "ka", .max_tokens = 100, .seed = 8}), first);
}

TEST_F(Generate, WithTemperatureZeroTheSeedIsIrrelevant) {
  const SamplingOptions greedy{.temperature = 0};
  EXPECT_EQ(text({.prompt = "lo", .max_tokens = 40, .sampling = greedy, .seed = 1}),
            text({.prompt = "lo", .max_tokens = 40, .sampling = greedy, .seed = 2}));
}

// The first token after a prompt as long as the window, and those after the window has slid, need no cache of what was:
// generating on from the half window that is kept must give the same.
TEST_F(Generate, PastTheWindowTheNewerHalfIsTheContext) {
  GenerationCounts counts;
  const SamplingOptions greedy{.temperature = 0};
  const std::string whole = text({.prompt = "mi", .max_tokens = 90, .sampling = greedy}, &counts);
  EXPECT_TRUE(counts.generated_tokens == 90 || counts.ended);
  EXPECT_EQ(counts.prompt_tokens, 3) << "the separator of documents comes first";
  EXPECT_GT(whole.size(), 34u) << "the window is 32 tokens";
}

TEST_F(Generate, ItStopsAtTheEndOfTheText) {
  // A model that was shown nothing but empty lines and ends: find one seed whose text ends by itself.
  GenerationCounts counts;
  const std::string all = text({.prompt = "ka", .max_tokens = 5000, .sampling = {.temperature = 1.5}}, &counts);
  EXPECT_EQ(counts.ended, counts.generated_tokens < 5000);
  EXPECT_TRUE(counts.ended) << "5000 hot tokens without one EOS";
}

TEST_F(Generate, WhereThereIsNoCheckpointItSaysSo) {
  EXPECT_EQ(error_of([] { load_model(*scratch / "text"); }).code(), ExitCode::kUser);
  EXPECT_EQ(error_of([] { load_model(*scratch / "nothing"); }).code(), ExitCode::kUser);
}

TEST_F(Generate, ADamagedCheckpointIsRefused) {
  const Path copy = *scratch / "copy";
  std::filesystem::copy(step_of(tiny_config(*scratch), 60), copy);
  const checkpoint::Reader reader = checkpoint::Reader::open(copy);
  for (const checkpoint::Item& item : reader.manifest().items) {
    if (item.name != "layers.1.feed_forward.w2.weight") continue;
    std::string content = read_file(copy / item.file);
    content[static_cast<size_t>(item.offset + item.length / 2)] ^= 4;
    write_file_atomic(copy / item.file, content);
  }
  const Error error = error_of([&] { load_model(copy); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_NE(std::string(error.what()).find("layers.1.feed_forward.w2.weight"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace hearth::train
