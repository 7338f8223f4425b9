// SPDX-License-Identifier: Apache-2.0
// Spike counts from a checkpoint, against the whole forward pass of the training.
#include "infer/generate_array.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "formats/npy.h"
#include "model/transformer.h"
#include "ops/tensor.h"
#include "recordings/patch_file.h"
#include "support/python.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;

constexpr int64_t kTopK = 4;

struct GenerateArray : ::testing::Test {
  // 6 neurons, windows of 32 tokens.
  void train_on(const std::string& tokenizer) {
    train::build_tiny_spikes(scratch, "data", 6, 1, tokenizer);
    config::RunConfig c = train::tiny_config(scratch);
    c.training.steps = 20;
    train::train(c);
    model = load_model(scratch / "run");
  }
  // Patches of 4 neurons x 3 bins, five of them; ids up to BOS = 15 have none.
  std::string patch_file() const {
    recordings::PatchVocabulary v;
    v.shape = {4, 3};
    v.vocab_size = 16;
    for (int i = 0; i < 5; ++i) {
      std::string patch(12, '\0');
      if (i > 0) patch.replace(static_cast<size_t>(i - 1) * 3, 3, {'\1', static_cast<char>(i), '\1'});
      v.references += patch;
    }
    write_file_atomic(scratch / "x.patches", recordings::patch_file(v));
    return (scratch / "x.patches").string();
  }
  // counts: [neurons, bins]
  std::string prompt_file(int64_t neurons, int64_t bins, const std::string& counts) const {
    const int64_t shape[] = {neurons, bins};
    write_file_atomic(scratch / "prompt.npy", formats::npy_header("|u1", shape) + counts);
    return (scratch / "prompt.npy").string();
  }
  test::ScratchFolder scratch;
  std::unique_ptr<LoadedModel> model;
};

// The next id below `choices`, without a cache.
int32_t next_of_array_without_cache(LoadedModel& model, const std::vector<int32_t>& visible, int64_t choices,
                                    double uniform) {
  const auto S = static_cast<int64_t>(visible.size());
  model::Transformer transformer(model.shape, model.plan, 1, S, {.dtype = model.dtype, .loss_chunk_tokens = 64});
  const at::Tensor tokens = ops::from_int32(visible);
  transformer.loss(*model.weights, {tokens, tokens, {}});
  const at::Tensor logits_V = transformer.logits(*model.weights).select(0, S - 1).narrow(0, 0, choices).to(at::kDouble);
  const auto [values, ids] = at::topk(logits_V, kTopK);
  const at::Tensor until = at::cumsum(at::softmax(values, 0), 0);
  int64_t i = 0;
  while (i + 1 < kTopK && until[i].item<double>() <= uniform) ++i;
  return static_cast<int32_t>(ids[i].item<int64_t>());
}

// `columns` columns of `patches` ids after the tokens of a prompt, as the rule in generate.h says.
std::vector<int32_t> ids_without_cache(LoadedModel& model, std::vector<int32_t> all, int64_t columns, int64_t patches,
                                       int64_t choices, uint64_t seed) {
  const c10::InferenceMode no_gradients;
  const auto bos = static_cast<int32_t>(*model.tokenizer->bos());
  std::vector<int32_t> drawn;
  size_t begin = all.size() + 1 > 32 ? all.size() + 1 - 16 : 0;
  uint64_t n = 0;  // every token has a random number, BOS too
  for (int64_t column = 0; column < columns; ++column) {
    all.push_back(bos);
    ++n;
    for (int64_t i = 0; i < patches; ++i, ++n) {
      if (all.size() - begin > 32) begin = all.size() - 16;
      const std::vector<int32_t> visible(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
      all.push_back(
          next_of_array_without_cache(model, visible, choices, random_uniform(random_key(seed, "generate"), n)));
      drawn.push_back(all.back());
    }
  }
  return drawn;
}

using Bins = std::vector<std::vector<uint8_t>>;

Bins bins_after(LoadedModel& model, const std::string& prompt, int64_t max_tokens, uint64_t seed,
                GenerationCounts* counts = nullptr) {
  Bins bins;
  const GenerationCounts c =
      generate_array(model, {read_prompt_array(model, prompt).context, max_tokens, {.top_k = kTopK}, seed},
                     [&](std::span<const uint8_t> bin) { bins.emplace_back(bin.begin(), bin.end()); });
  if (counts != nullptr) *counts = c;
  return bins;
}

TEST_F(GenerateArray, EveryCountIsThatOfAModelWithoutACacheWithinTheWindowAndPastIt) {
  train_on("spikes");
  for (const int64_t bins : {0, 2, 9}) {
    std::string counts;
    std::vector<int32_t> stream;
    for (int64_t i = 0; i < 6 * bins; ++i) counts += static_cast<char>(i % 3 == 0 ? i % 5 : 0);
    for (int64_t t = 0; t < bins; ++t) {
      stream.push_back(255);
      for (int64_t n = 0; n < 6; ++n) stream.push_back(counts[static_cast<size_t>(n * bins + t)]);
    }
    GenerationCounts c;
    const Bins result = bins_after(*model, prompt_file(6, bins, counts), 43, 7, &c);
    ASSERT_EQ(result.size(), 7U) << "43 tokens begin a seventh column of seven";
    EXPECT_EQ(c.prompt_tokens, 7 * bins);
    EXPECT_EQ(c.generated_tokens, 49);
    const auto expected = ids_without_cache(*model, stream, 7, 6, 255, 7);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(result[i / 6].at(i % 6), expected[i]) << i;
  }
}

TEST_F(GenerateArray, PatchesAreDrawnFromThoseThatThereAreAndShownAsTheirBins) {
  train_on(patch_file());
  // Eleven bins: three columns of patches, the first two bins left out.
  std::string counts(6 * 11, '\0');
  for (size_t bin = 2; bin < 11; ++bin) counts[11 * 1 + bin] = static_cast<char>(bin % 3 == 0 ? 2 : 1);
  const Bins result = bins_after(*model, prompt_file(6, 11, counts), 30, 3);
  ASSERT_EQ(result.size(), 30U);
  const auto expected = ids_without_cache(*model, {15, 2, 0, 15, 2, 0, 15, 2, 0}, 10, 2, 5, 3);
  int others = 0;
  for (size_t column = 0; column < 10; ++column) {
    for (size_t patch = 0; patch < 2; ++patch) {
      const int32_t id = expected[column * 2 + patch];
      others += id > 0 ? 1 : 0;
      for (size_t neuron = patch * 4; neuron < std::min<size_t>(6, patch * 4 + 4); ++neuron) {
        const bool fires = id > 0 && neuron - patch * 4 == static_cast<size_t>(id - 1);
        for (size_t bin = 0; bin < 3; ++bin)
          EXPECT_EQ(result[column * 3 + bin].at(neuron), !fires ? 0 : bin == 1 ? id : 1) << column << " " << neuron;
      }
    }
  }
  EXPECT_GT(others, 3);
  EXPECT_EQ(result.front().size(), 6U);
}

TEST_F(GenerateArray, TheCommandPrintsALineABinAndRefusesWhatIsNoArray) {
  train_on("spikes:9");
  const auto printed = [&](const std::string& prompt) {
    ::testing::internal::CaptureStdout();
    run_generate({.checkpoint = scratch / "run", .prompt = prompt, .max_tokens = 14, .temperature = 0});
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string lines = printed(prompt_file(6, 1, std::string("\0\0\1\0\2\0", 6)));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), ' '), 10);
  EXPECT_EQ(lines.find_first_not_of("012345678 \n"), std::string::npos) << lines;
  const auto refused = [&](const std::string& prompt) {
    const Error e = test::error_of([&] { printed(prompt); });
    ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.why(), HasSubstr("continues arrays of counts: its tokenizer is spikes:9")) << e.why();
    EXPECT_THAT(e.fix(), HasSubstr("give a .npy of uint8, neurons x time bins"));
    return e.message();
  };
  EXPECT_EQ(refused("Once"), "--prompt: there is no file \"Once\"");
  const std::string path = (scratch / "prompt.npy").string();
  EXPECT_EQ(refused(prompt_file(0, 3, "")), "--prompt " + path + ": it has no neurons");
  EXPECT_EQ(refused(prompt_file(1, 2, std::string("\7\10", 2))), "--prompt " + path + ": it has the count 8");
  EXPECT_EQ(refused(prompt_file(1, 2, "\7")), "--prompt " + path + ": it is cut short: 1 bytes of 2");
}

TEST_F(GenerateArray, TheFilesHoldWhatIsPrintedAndThePictureShowsWhatReallyCame) {
  train_on("spikes:9");
  std::string counts;
  for (int i = 0; i < 6 * 5; ++i) counts += static_cast<char>(i % 7 == 0);
  const std::string prompt = prompt_file(6, 5, counts);
  ::testing::internal::CaptureStdout();
  run_generate({.checkpoint = scratch / "run",
                .prompt = prompt,
                .max_tokens = 21,
                .seed = 5,
                .context_bins = 2,
                .out = scratch / "out.npy",
                .picture = scratch / "out.png"});
  const std::string lines = ::testing::internal::GetCapturedStdout();
  const test::CommandResult numpy =
      test::run_python(fmt::format("-c \"import numpy as n; a = n.load('{}'); print(a.dtype, a.shape); "
                                   "[print(*row) for row in a.T]\"",
                                   (scratch / "out.npy").string()));
  EXPECT_EQ(numpy.output, "uint8 (6, 3)\n" + lines);
  const recordings::ArrayPrompt read = read_prompt_array(*model, prompt, 2);
  EXPECT_EQ(read.context.shape.bins, 2);
  EXPECT_EQ(read.after.shape.bins, 3);
  EXPECT_EQ(read.after.counts.size(), 18U);
  EXPECT_EQ(read.after.counts[0], counts[2]) << "neuron 0 of the third bin";
  EXPECT_EQ(read_file(scratch / "out.png").substr(1, 3), "PNG");
  EXPECT_EQ(test::error_of([&] { read_prompt_array(*model, prompt, 6); }).message(),
            fmt::format("--context 6: {} has 5 time bins", prompt));
}

TEST_F(GenerateArray, FilesThatCannotBeWrittenAreRefusedBeforeAnythingIsGenerated) {
  train_on("spikes:9");
  write_file_atomic(scratch / "file", "");
  make_folders(scratch / "folder");
  const auto refused = [&](config::GenerateOptions options) {
    options.checkpoint = scratch / "run";
    options.prompt = prompt_file(6, 2, std::string(12, '\1'));
    options.max_tokens = 7;
    ::testing::internal::CaptureStdout();
    const Error error = test::error_of([&] { run_generate(options); });
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_EQ(error.fix(), "give the path of a file that can be written");
    return error.message();
  };
  const std::string below = (scratch / "file/out.npy").string(), folder = (scratch / "folder").string();
  EXPECT_TRUE(refused({.out = below}).starts_with("--out " + below + ": ")) << refused({.out = below});
  EXPECT_TRUE(refused({.picture = "/proc/none/out.png"}).starts_with("--picture /proc/none/out.png: "));
  EXPECT_EQ(refused({.picture = folder}), "--picture " + folder + ": it is a folder");
  // A folder that can be made is made, as other commands do.
  ::testing::internal::CaptureStdout();
  run_generate({.checkpoint = scratch / "run",
                .prompt = prompt_file(6, 2, std::string(12, '\1')),
                .max_tokens = 7,
                .out = scratch / "new/folder/out.npy"});
  ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(path_exists(scratch / "new/folder/out.npy"));
}

// The model has seen 6 neurons a time bin, whatever a recording has.
TEST_F(GenerateArray, ARecordingGetsTheNeuronsThatTheModelWasTrainedOn) {
  train_on("spikes:9");
  ASSERT_EQ(model->manifest.n_fixed, 6);
  using Counts = std::vector<uint8_t>;
  const std::string wide = prompt_file(8, 2, std::string("\0\1\2\3\4\5\6\7\0\0\1\1\2\2\3\3", 16));
  EXPECT_EQ(read_prompt_array(*model, wide).context.counts, (Counts{0, 2, 4, 6, 0, 1, 1, 3, 5, 7, 0, 1}));
  EXPECT_EQ(read_prompt_array(*model, wide, 1).after.counts, (Counts{1, 3, 5, 7, 0, 1}));
  EXPECT_EQ(read_prompt_array(*model, wide, 0, 3).context.counts, (Counts{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(read_prompt_array(*model, wide, 0, 0).context.shape.neurons, 8);
  const std::string narrow = prompt_file(4, 1, std::string("\1\2\3\4", 4));
  EXPECT_EQ(read_prompt_array(*model, narrow).context.counts, (Counts{1, 2, 3, 4, 1, 2}));
}

}  // namespace
}  // namespace hearth::infer
