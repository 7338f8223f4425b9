// SPDX-License-Identifier: Apache-2.0
#include "infer/generate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "model/transformer.h"
#include "ops/tensor.h"
#include "tokenizer/bpe/train.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;

struct Generate : ::testing::Test {
  static void SetUpTestSuite() {
    scratch = new test::ScratchFolder;
    train::build_tiny_data(*scratch);
    config::RunConfig c = train::tiny_config(*scratch);
    c.training.steps = 60;
    train::train(c);
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

// The next token as the whole forward pass of the training gives it, without a cache: the most likely `top_k`, at the
// uniform number of this position.
int64_t next_without_cache(LoadedModel& model, const std::vector<int32_t>& visible, int64_t top_k, double uniform) {
  const auto S = static_cast<int64_t>(visible.size());
  model::Transformer transformer(model.shape, model.plan, 1, S, {.dtype = model.dtype, .loss_chunk_tokens = 64});
  const at::Tensor tokens = ops::from_int32(visible);
  transformer.loss(*model.weights, {tokens, tokens, {}});
  const at::Tensor logits_V = transformer.logits(*model.weights).select(0, S - 1).narrow(0, 0, 258).to(at::kDouble);
  const auto [values, ids] = at::topk(logits_V, top_k);
  const at::Tensor until = at::cumsum(at::softmax(values, 0), 0);
  int64_t i = 0;
  while (i + 1 < top_k && until[i].item<double>() <= uniform) ++i;
  return ids[i].item<int64_t>();
}

// The content of the window of 32 tokens when token number n is chosen, by a rule of the test's own. While everything
// fits, it is everything. Then it is what came since the window was last full, and the 16 tokens before.
void expect_text_of_an_uncached_model(LoadedModel& model, const Generation& request, const std::string& text,
                                      int64_t tokens, bool ended) {
  const c10::InferenceMode no_gradients;
  std::vector<int32_t> all = {257};  // a document begins after the end of another
  for (const char c : request.prompt) all.push_back(static_cast<unsigned char>(c));
  size_t begin = all.size() > 32 ? all.size() - 16 : 0;
  for (int64_t i = 0; i < tokens + (ended ? 1 : 0); ++i) {
    if (all.size() - begin > 32) begin = all.size() - 16;
    const double uniform = random_uniform(random_key(request.seed, "generate"), static_cast<uint64_t>(i));
    const std::vector<int32_t> visible(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
    const int64_t expected = next_without_cache(model, visible, request.sampling.top_k, uniform);
    if (i == tokens) {
      EXPECT_EQ(expected, 257) << "the text ended";
      break;
    }
    const auto shown = static_cast<unsigned char>(text.at(request.prompt.size() + static_cast<size_t>(i)));
    ASSERT_EQ(expected, shown) << "token " << i << " after \""
                               << text.substr(0, request.prompt.size() + static_cast<size_t>(i)) << "\"";
    all.push_back(shown);
  }
}

// A short prompt begins a document. A prompt longer than the window keeps its newer half. There are thirty of each, and
// each would show a wrong rule.
TEST_F(Generate, TheFirstTokenSeesTheStartOfADocumentOrTheNewerHalfOfAWindow) {
  const auto model = load_model(*scratch / "run");
  const std::string source = train::tiny_text(9, 200);
  for (uint64_t i = 0; i < 60; ++i) {
    const uint64_t length = i % 2 == 0 ? 1 : 40 + i / 2;
    const Generation request{
        .prompt = source.substr(3 * i, length), .max_tokens = 1, .sampling = {.top_k = 8}, .seed = i};
    std::string whole;
    const GenerationCounts counts = generate(*model, request, [&](std::string_view part) { whole += part; });
    expect_text_of_an_uncached_model(*model, request, whole, counts.generated_tokens, counts.ended);
  }
}

TEST_F(Generate, EveryTokenIsThatOfAModelWithoutACacheWithinTheWindowAndPastIt) {
  const auto model = load_model(*scratch / "run");
  const std::string prompts[] = {"mi", train::tiny_text(3, 40).substr(0, 30), train::tiny_text(3, 40).substr(0, 31),
                                 train::tiny_text(3, 40).substr(0, 90)};
  uint64_t seed = 0;
  for (const std::string& prompt : prompts) {
    const Generation request{.prompt = prompt, .max_tokens = 70, .sampling = {.top_k = 3}, .seed = ++seed};
    GenerationCounts counts;
    const std::string whole = text(request, &counts);
    EXPECT_EQ(counts.prompt_tokens, static_cast<int64_t>(prompt.size()) + 1)
        << "the separator of documents comes first";
    EXPECT_GT(counts.generated_tokens, 40) << "past the window, or this says little: choose another seed";
    expect_text_of_an_uncached_model(*model, request, whole, counts.generated_tokens, counts.ended);
  }
}

TEST_F(Generate, AnEmptyPromptIsTheBeginningOfADocument) {
  const auto model = load_model(*scratch / "run");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Generation request{.prompt = "", .max_tokens = 20, .sampling = {.top_k = 8}, .seed = seed};
    GenerationCounts counts;
    const std::string whole = text(request, &counts);
    EXPECT_EQ(counts.prompt_tokens, 1);
    expect_text_of_an_uncached_model(*model, request, whole, counts.generated_tokens, counts.ended);
  }
}

TEST_F(Generate, AnEmptyPromptOfATokenizerWithoutBosAndEosIsRefused) {
  const test::ScratchFolder folder;
  train::build_tiny_data(folder, 100);
  tokenizer::PieceCounts counts;
  counts.add("kaka", 10);
  write_file_atomic(folder / "tokenizer.json",
                    tokenizer::huggingface_file(
                        tokenizer::train_bpe(counts, {257, {}, std::string(tokenizer::kGpt2Pattern), 2}, nullptr)));
  data::BuildOptions options;
  options.out = folder / "data";
  options.paths = {folder / "text"};
  options.rules.tokenizer = (folder / "tokenizer.json").string();
  options.rules.eos = false;
  options.overwrite = true;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  config::RunConfig c = train::tiny_config(folder);
  c.training.steps = 1;
  c.lr_scheduler.warmup_steps = 0;
  train::train(c);
  const Error error = test::error_of([&] { run_generate({.checkpoint = folder / "run", .prompt = ""}); });
  EXPECT_EQ(error.message(), "the prompt is empty");
  EXPECT_EQ(error.why(), "the model's tokenizer has neither BOS nor EOS");
  EXPECT_EQ(error.fix(), "give the start of the text: --prompt TEXT");
}

TEST_F(Generate, ItStopsAtTheEndOfTheText) {
  // A model that was shown nothing but empty lines and ends: find one seed whose text ends by itself.
  GenerationCounts counts;
  const std::string all = text({.prompt = "ka", .max_tokens = 5000, .sampling = {.temperature = 1.5}}, &counts);
  EXPECT_EQ(counts.ended, counts.generated_tokens < 5000);
  EXPECT_TRUE(counts.ended) << "5000 hot tokens without one EOS";
}

TEST_F(Generate, WhereThereIsNoCheckpointItSaysSo) {
  EXPECT_EQ(test::error_of([] { load_model(*scratch / "text"); }).code(), ExitCode::kUser);
  EXPECT_EQ(test::error_of([] { load_model(*scratch / "nothing"); }).code(), ExitCode::kUser);
}

TEST_F(Generate, ADamagedCheckpointIsRefused) {
  const Path copy = *scratch / "copy";
  std::filesystem::copy(train::step_of(train::tiny_config(*scratch), 60), copy);
  const checkpoint::Reader reader = checkpoint::Reader::open(copy);
  for (const formats::Item& item : reader.manifest().items) {
    if (item.name != "layers.1.feed_forward.w2.weight") continue;
    std::string content = read_file(copy / item.file);
    content[static_cast<size_t>(item.offset + item.length / 2)] ^= 4;
    write_file_atomic(copy / item.file, content);
  }
  const Error error = test::error_of([&] { load_model(copy); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(std::string(error.what()), HasSubstr("layers.1.feed_forward.w2.weight")) << error.what();
}

}  // namespace
}  // namespace hearth::infer
