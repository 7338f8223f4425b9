// SPDX-License-Identifier: Apache-2.0
// Arrays of spike counts, from .npy files to a training's tokens, compared with NumPy.
#include <gmock/gmock.h>
#include <cstring>

#include "base/random.h"
#include "data/batch/loader.h"
#include "data/shard/shard_reader.h"
#include "recordings/patch_file.h"
#include "recordings/spike_folder.h"
#include "recordings/synthetic.h"
#include "support/python.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

// Runs the reference; returns its output.
std::string reference(const std::string& arguments) {
  const auto result = test::run_python("tests/recordings/spikes_reference.py " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

std::vector<int32_t> stream_of(const Split& split, const Draw& draw = {}) {
  std::vector<int32_t> tokens(static_cast<size_t>(split.tokens()));
  split.read(0, tokens, draw);
  return tokens;
}

// The reference's tokens of the arrays in `folder`.
std::vector<int32_t> expected(const Path& folder, const Split& split, int64_t n_fixed, const std::string& pickle,
                              const Draw& draw = {}) {
  const Path out = folder.parent_path() / "expected";
  reference(fmt::format("tokens {} 256 {} {} {} {} {}/{} {}", folder.string(), n_fixed, pickle, draw.seed, draw.epoch,
                        split.dataset_identity(), split.name(), out.string()));
  const std::string bytes = read_file(out);
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

TEST(Spikes, TheStreamIsNumpysWhateverTheNumberOfNeurons) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  reference("make " + (scratch / "rec").string());
  for (const int64_t n_fixed : {0, 16, 1000}) {
    const Path out = scratch / fmt::format("{}", n_fixed);
    build(out, {scratch / "rec"}, spikes(n_fixed));
    const Dataset dataset = Dataset::open(out);
    const Split& split = dataset.split("train");
    EXPECT_EQ(split.documents(), 9);
    for (const Draw draw : {Draw{3, 0}, Draw{3, 1}})
      EXPECT_EQ(stream_of(split, draw), expected(scratch / "rec", split, n_fixed, "-", draw)) << n_fixed;
  }
}

TEST(Spikes, AnyPartOfTheStreamIsThatPart) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  reference("make " + (scratch / "rec").string());
  BuildRules rules = spikes(16);
  rules.shard_tokens = 2000;  // several shards, one with an array without time bins
  build(scratch / "out", {scratch / "rec"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  EXPECT_GT(dataset.manifest().find_split("train")->shards.size(), 3u);
  const Split& split = dataset.split("train");
  const Draw draw{5, 2};
  const std::vector<int32_t> all = stream_of(split, draw);
  EXPECT_EQ(all, expected(scratch / "rec", split, 16, "-", draw));
  const RandomKey key = random_key(1, "parts");
  for (uint64_t i = 0; i < 300; ++i) {
    const auto first = static_cast<int64_t>(random_u64(key, 2 * i) % all.size());
    const auto count = 1 + random_u64(key, 2 * i + 1) % (all.size() - static_cast<size_t>(first));
    std::vector<int32_t> part(count);
    split.read(first, part, draw);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first << " " << count;
  }
  int64_t end = 0;
  for (int64_t document = 0; document < split.documents(); ++document) {
    const recordings::ArrayShape shape = split.array(document).shape;
    EXPECT_EQ(split.document_begin(document), end);
    end += shape.bins * 17;
    if (shape.bins > 0) {
      EXPECT_EQ(split.locate(end - 1).document, document);
      EXPECT_EQ(split.locate(end - 1).offset, shape.bins * 17 - 1);
    }
  }
}

TEST(Spikes, AnImportedOrTrainedVocabularyGivesNumpysIds) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  const std::string rec = (scratch / "rec").string(), pickled = (scratch / "seed.pkl").string();
  reference("make " + rec);
  for (const char* patch : {"1 15", "2 5", "1 1"}) {
    const std::string kind = patch == std::string("2 5") ? "numpy" : "int";
    reference(fmt::format("vocabulary {} {} 60 {} {}", rec, patch, pickled, kind));
    const std::string imported = (scratch / "imported").string(), trained = (scratch / "trained").string();
    std::string shape = patch;
    shape[1] = 'x';
    for (const std::string& command :
         {fmt::format("import --overwrite --out {} {}", imported, pickled),
          fmt::format("train --kind patches --patch {} --vocab-size 60 --threads 3 --overwrite --out {} {}", shape,
                      trained, rec)}) {
      const auto result = test::run_command(test::hearth_binary() + " tokenizer " + command);
      ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    EXPECT_TRUE(reference(fmt::format("read_vocabulary {} {}", imported, pickled)).starts_with("equal "));
    EXPECT_TRUE(reference(fmt::format("read_vocabulary {} {}", trained, pickled)).starts_with("equal "));
    for (const int64_t n_fixed : {0, 21}) {
      BuildRules rules = spikes(n_fixed);
      rules.tokenizer = trained;
      const Path out = scratch / fmt::format("out {} {}", patch, n_fixed);
      build(out, {rec}, rules);
      const Dataset dataset = Dataset::open(out);
      const Split& split = dataset.split("train");
      EXPECT_EQ(stream_of(split, {9, 4}), expected(rec, split, n_fixed, pickled, {9, 4})) << patch << " " << n_fixed;
    }
  }
}

TEST(Spikes, APatchThatWasNeverSeenIsTheMostFrequentOne) {
  recordings::PatchVocabulary v;
  v.shape = {1, 2};
  v.vocab_size = 4;
  v.references = std::string("\0\0\1\0", 4);
  v.others = "\2\1";
  v.other_ids = {1};
  const recordings::PatchFile tokenizer(recordings::patch_file(v), "here");
  const auto id = [&](std::vector<uint8_t> patch) { return tokenizer.id_of(patch); };
  EXPECT_EQ(id({0, 0}), 0u);
  EXPECT_EQ(id({1, 0}), 1u);
  EXPECT_EQ(id({2, 1}), 1u);
  EXPECT_EQ(id({0, 7}), 0u);
  EXPECT_EQ(std::vector<uint8_t>({1, 0}),
            std::vector<uint8_t>(tokenizer.patch_of(1).begin(), tokenizer.patch_of(1).end()));
  EXPECT_TRUE(tokenizer.patch_of(2).empty());  // no patch has it
  EXPECT_TRUE(tokenizer.patch_of(3).empty());  // BOS
}

TEST(Spikes, ACountThatEqualsBosIsNamedWithItsPlace) {
  const ScratchFolder scratch;
  write_array(scratch / "rec" / "a.npy", 2, 3, std::string("\0\1\2\3\4\5", 6));
  write_array(scratch / "rec" / "b.npy", 2, 3, std::string("\0\1\2\3\xff\5", 6));
  const auto message = [&](const std::string& tokenizer) {
    BuildRules rules = spikes();
    rules.tokenizer = tokenizer;
    return error_of([&] { build(scratch / "out", {scratch / "rec"}, rules); }).message();
  };
  const std::string a = (scratch / "rec" / "a.npy").string(), b = (scratch / "rec" / "b.npy").string();
  EXPECT_EQ(message("spikes"), b + ": the array: neuron 1 has the count 255 in time bin 1, but 255 is BOS");
  EXPECT_EQ(message("spikes:5"), a + ": the array: neuron 1 has the count 4 in time bin 1, but 4 is BOS");
  EXPECT_EQ(message("spikes:3"),
            a + ": the array: neuron 1 has the count 3 in time bin 0, but 2 is BOS and 1 the largest count");
  BuildRules rules = spikes();
  rules.on_error = OnError::kSkip;
  const BuildResult result = build(scratch / "out", {scratch / "rec"}, rules);
  EXPECT_EQ(result.manifest.find_split("train")->documents, 1);
  EXPECT_EQ(result.manifest.records.skipped[static_cast<size_t>(RecordProblem::kWrongType)], 1);
  rules = spikes();
  rules.tokenizer = "spikes:257";  // every uint8 is a count
  build(scratch / "all", {scratch / "rec"}, rules);
  EXPECT_EQ(stream_of(Dataset::open(scratch / "all").split("train")),
            (std::vector<int32_t>{256, 0, 3, 256, 1, 4, 256, 2, 5, 256, 0, 3, 256, 1, 255, 256, 2, 5}));
}

TEST(Spikes, LabelsAreKeptAndChooseArrays) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  reference("make " + (scratch / "rec").string());
  BuildRules rules = spikes();
  rules.source_dataset =
      "sh\xC3\xAF"
      "eld";
  const BuildResult result = build(scratch / "out", {scratch / "rec"}, rules);
  EXPECT_EQ(result.manifest.records.other_source_dataset, 4);
  const Dataset dataset = Dataset::open(scratch / "out");
  EXPECT_EQ(dataset.manifest().rules.source_dataset, rules.source_dataset);
  const Split& split = dataset.split("train");
  ASSERT_EQ(split.documents(), 5);
  for (int64_t i = 0; i < 5; ++i) {
    const std::string n = fmt::format("{}", 2 * i);
    EXPECT_EQ(split.array(i).labels, (recordings::ArrayLabels{"s0", "2021-05-0" + n, n, rules.source_dataset}));
  }
  EXPECT_EQ(split.array(1).shape, (recordings::ArrayShape{16, 45}));
  rules.source_dataset = "ibm";
  const Error none = error_of([&] { build(scratch / "none", {scratch / "rec"}, rules); });
  EXPECT_EQ(none.message(), "no array has the source_dataset \"ibm\"");
  EXPECT_EQ(none.code(), ExitCode::kUser);
}

TEST(Spikes, TokenizersAndSourcesMustBeOfOneKind) {
  const ScratchFolder scratch;
  write_array(scratch / "rec" / "a.npy", 1, 1, std::string(1, '\0'));
  write_text(scratch / "text" / "a.txt", "text");
  const auto message = [&](const char* source, BuildRules rules) {
    return error_of([&] { build(scratch / "out", {scratch / source}, rules); }).message();
  };
  EXPECT_EQ(message("rec", {}), (scratch / "rec" / "a.npy").string() + " is an array");
  EXPECT_EQ(message("text", spikes()), (scratch / "text" / "a.txt").string() + " is not an array");
  BuildRules rules;
  rules.n_fixed = 3;
  EXPECT_EQ(message("text", rules), "--n-fixed is only for arrays");
  rules = {};
  rules.source_dataset = "x";
  EXPECT_EQ(message("text", rules), "--source-dataset is only for arrays");
  EXPECT_EQ(message("rec", spikes(-1)), "--n-fixed -1 is outside its range");
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "rec"};
  options.rules = spikes();
  options.eos = false;
  EXPECT_EQ(error_of([&] { run(options); }).message(), "--eos is only for text");
}

TEST(Spikes, ALoaderReadsTheSameAfterAResumeAndOtherNeuronsInEachPass) {
  const ScratchFolder scratch;
  for (int i = 0; i < 6; ++i) {
    std::string counts;
    for (uint64_t k = 0; k < 40 * 25; ++k)
      counts += static_cast<char>(random_u64(random_key(static_cast<uint64_t>(i), "counts"), k) % 200);
    write_array(scratch / "rec" / fmt::format("{}.npy", i), 40, 25, counts);
  }
  build(scratch / "out", {scratch / "rec"}, spikes(8));
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  EXPECT_EQ(split.tokens(), 6 * 25 * 9);
  LoaderOptions options;
  options.seed = 4;
  options.seq_len = 50;
  options.global_batch_size = 3;
  options.local_batch_size = 3;
  Loader whole(split, options);
  const uint64_t epoch = whole.samples_per_epoch();  // 27 samples: 9 steps
  std::vector<std::vector<int32_t>> steps;
  for (int step = 0; step < 20; ++step) steps.push_back(whole.next().micro_batches[0].tokens);
  options.first_sample = 3 * 7;
  options.prefetch_threads = 0;
  Loader resumed(split, options);
  for (size_t step = 7; step < 20; ++step) EXPECT_EQ(resumed.next().micro_batches[0].tokens, steps[step]) << step;
  // Each sample is the split's for its epoch, and the second pass has other neurons than the first.
  const Sampler sampler = sampler_of(split, options);
  ASSERT_EQ(epoch, 27u);
  std::vector<int32_t> first_pass(50), second_pass(50);
  int differ = 0;
  for (uint64_t g = 0; g < 3; ++g) {
    const Sample sample = sampler.sample(epoch + g);
    EXPECT_EQ(sample.epoch, 1u);
    const int64_t count = std::min<int64_t>(50, sample.num_tokens - 1);
    second_pass.resize(static_cast<size_t>(count));
    first_pass.resize(static_cast<size_t>(count));
    split.read(sample.first_token, second_pass, {4, 1});
    split.read(sample.first_token, first_pass, {4, 0});
    EXPECT_TRUE(std::equal(second_pass.begin(), second_pass.end(), steps[9].begin() + static_cast<int64_t>(g) * 50));
    differ += first_pass != second_pass ? 1 : 0;
  }
  EXPECT_GT(differ, 0);
}

TEST(Spikes, TheIdentityKnowsNeuronsAndShapes) {
  const ScratchFolder scratch;
  write_array(scratch / "a" / "a.npy", 2, 3, "123456");
  write_array(scratch / "b" / "a.npy", 3, 2, "135246");  // the same counts in time-major order
  const auto identity = [&](const char* source, int64_t n_fixed) {
    const Path out = scratch / fmt::format("{} {}", source, n_fixed);
    build(out, {scratch / source}, spikes(n_fixed));
    return Dataset::open(out).manifest().identity;
  };
  EXPECT_NE(identity("a", 0), identity("b", 0));
  EXPECT_NE(identity("a", 0), identity("a", 2));
}

TEST(Spikes, ADamagedOrForeignShardIsAnErrorAndNeverATokenOfAnotherPlace) {
  const ScratchFolder scratch;
  write_array(scratch / "rec" / "a.npy", 4, 50, std::string(200, '\1'));
  build(scratch / "out", {scratch / "rec"}, spikes());
  const Path shard = scratch / "out" / "train-000000-0000.shard";
  std::string bytes = read_file(shard);
  const ShardReader reader(shard);
  bytes[reader.find_column("tokens")->data_offset + 7] ^= 1;
  write_text(shard, bytes);
  const Dataset dataset = Dataset::open(scratch / "out");
  const Error e = error_of([&] { stream_of(dataset.split("train")); });
  EXPECT_EQ(e.code(), ExitCode::kDamaged);
  EXPECT_THAT(e.why(), HasSubstr("column tokens")) << e.why();
}

TEST(Spikes, SyntheticArraysAreThoseOfTheRule) {
  const ScratchFolder scratch;
  recordings::write_synthetic_spikes(scratch / "rec", 3, 25);
  build(scratch / "out", {scratch / "rec"}, spikes());
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  ASSERT_EQ(split.documents(), 25);
  int64_t smallest = 1000, largest = 0;
  for (int64_t i = 0; i < 25; ++i) {
    const recordings::SpikeArray array = recordings::synthetic_spikes(3, i);
    const auto [neurons, bins] = array.shape;
    EXPECT_EQ(split.array(i).shape, array.shape);
    EXPECT_TRUE(neurons >= 10 && neurons < 1000 && bins >= 100 && bins < 2000);
    smallest = std::min(smallest, neurons);
    largest = std::max(largest, neurons);
    std::vector<int32_t> column(static_cast<size_t>(neurons) + 1), last = column;
    split.read(split.document_begin(i), column);
    split.read(split.document_begin(i + 1) - neurons - 1, last);
    EXPECT_EQ(column, last);
    EXPECT_EQ(column[0], 255);
    EXPECT_EQ(std::count(column.begin(), column.end(), 1), neurons / 10);
    EXPECT_EQ(std::count(column.begin(), column.end(), 0), neurons - neurons / 10);
  }
  EXPECT_LT(smallest, 200);
  EXPECT_GT(largest, 800);
  EXPECT_EQ(error_of([&] { recordings::write_synthetic_spikes(scratch / "rec", 3, 1); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::data
