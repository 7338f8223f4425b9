// SPDX-License-Identifier: Apache-2.0
// The mean of checkpoints, compared with plain loops and with NumPy on what PyTorch reads.
#include "checkpoint/average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "checkpoint/example.h"
#include "checkpoint/verify.h"
#include "config/load.h"
#include "formats/cast.h"
#include "support/errors.h"

namespace hearth::checkpoint {
namespace {

using test::error_of;
using testing::HasSubstr;

// A tensor whose values are those of example_tensor() for another seed.
ExampleTensor varied(const std::string& name, DType dtype, const std::vector<int64_t>& shape, int seed) {
  ExampleTensor tensor = example_tensor(fmt::format("{} {}", name, seed), dtype, shape);
  tensor.info.name = name;
  return tensor;
}

std::vector<ExampleTensor> model(int seed) {
  return {varied("tok_embeddings.weight", DType::kFloat32, {13, 7}, seed),
          varied("layers.0.attention.wq.weight", DType::kFloat32, {6, 5}, seed),
          varied("norm.weight", DType::kFloat32, {11}, seed),
          varied("scale", DType::kFloat32, {}, seed),
          varied("optimizer.state.norm.weight.exp_avg", DType::kFloat32, {11}, seed),
          varied("optimizer.state.norm.weight.step", DType::kFloat32, {}, seed)};
}

float element(const ExampleTensor& tensor, size_t i) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
  return value;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct AverageTest : testing::Test {
  Path save(const std::vector<ExampleTensor>& tensors, int64_t step, int64_t ranks = 1) {
    return save_as(tensors, step, ranks, [](Manifest&) {});
  }
  // `change` edits the manifest.
  Path save_as(const std::vector<ExampleTensor>& tensors, int64_t step, int64_t ranks, const auto& change) {
    const Path temporary = temporary_folder(scratch / "checkpoints", step);
    begin_save(temporary);
    std::vector<std::string> items;
    for (int64_t rank = 0; rank < ranks; ++rank)
      items.push_back(write_rank_file(temporary, rank, flat_pieces(tensors, rank, ranks)));
    Manifest manifest = example_manifest(step, ranks);
    manifest.config_toml = config::to_toml({});
    manifest.states["health"] = R"({"losses":[1]})";
    manifest.tokenizer_hash = tokenizer_hash;
    change(manifest);
    commit(temporary, step_folder(scratch / "checkpoints", step), items, manifest);
    return step_folder(scratch / "checkpoints", step);
  }
  Error refused(const std::vector<AverageInput>& inputs) const {
    return error_of([&] { average_checkpoints(inputs, scratch / "refused", progress); });
  }

  test::ScratchFolder scratch;
  mutable AverageProgress progress;
  // That of the tokenizer "bytes".
  const std::string tokenizer_hash = tokenizer::open_tokenizer("bytes")->content_hash();
};

TEST_F(AverageTest, EveryElementIsThePlainMeanWhateverRanksWroteIt) {
  const std::vector<std::vector<ExampleTensor>> models = {model(1), model(2), model(3)};
  const std::vector<AverageInput> inputs = {
      {save(models[0], 30, 1), 1}, {save(models[1], 10, 3), 1}, {save(models[2], 20, 2), 1}};
  const Averaged result = average_checkpoints(inputs, scratch / "mean", progress);
  EXPECT_EQ(result.step, 30);
  EXPECT_EQ(result.tensors, 4);
  EXPECT_EQ(result.bytes, 4 * (13 * 7 + 6 * 5 + 11 + 1));
  EXPECT_EQ(progress.done_bytes, progress.all_bytes);
  EXPECT_EQ(progress.all_bytes, 3 * result.bytes);

  Reader reader = Reader::open(scratch / "mean");
  EXPECT_EQ(reader.tensors().size(), 4u);  // none of the optimizer
  for (size_t t = 0; t < 4; ++t) {
    const std::vector<float> means = floats_of(read_whole(reader, models[0][t]));
    for (size_t i = 0; i < means.size(); ++i) {
      double sum = 0;
      for (const auto& one : models) sum += static_cast<double>(element(one[t], i));
      EXPECT_EQ(means[i], static_cast<float>(sum / 3)) << models[0][t].info.name << " " << i;
    }
  }
  EXPECT_TRUE(verify_checkpoint(scratch / "mean").problems.empty());
  average_checkpoints(inputs, (scratch / "slash").string() + "/", progress);
  EXPECT_TRUE(Reader::open(scratch / "slash").has_manifest());
}

// In float32, 2^24 + 1 - 2^24 is 0.
TEST_F(AverageTest, SumsAreOfFloat64AndWeightsCount) {
  const auto constant = [&](float value, int64_t step) {
    ExampleTensor tensor{{"w", DType::kFloat32, {2}}, std::vector<std::byte>(8)};
    std::memcpy(tensor.bytes.data(), &value, 4);
    std::memcpy(tensor.bytes.data() + 4, &value, 4);
    return save({tensor}, step);
  };
  const Path large = constant(16777216.F, 1), one = constant(1, 2), negative = constant(-16777216.F, 3);
  const auto mean = [&](const std::vector<AverageInput>& inputs, const char* name) {
    average_checkpoints(inputs, scratch / name, progress);
    Reader reader = Reader::open(scratch / name);
    return floats_of(read_whole(reader, {{"w", DType::kFloat32, {2}}, std::vector<std::byte>(8)}))[1];
  };
  EXPECT_EQ(mean({{large, 1}, {one, 1}, {negative, 1}}, "a"), static_cast<float>(1.0 / 3));
  EXPECT_EQ(mean({{large, 0.5}, {one, 3}, {negative, 0.5}}, "b"), 0.75F);
  EXPECT_EQ(mean({{large, 1}, {one, 3}}, "c"), static_cast<float>((16777216.0 + 3) / 4));
}

TEST_F(AverageTest, IsNumpysOfWhatPyTorchReads) {
  HEARTH_NEEDS_ORACLE();
  // More elements than a portion has: 4 Mi.
  const auto large = [](int seed) {
    return std::vector{varied("w", DType::kFloat32, {3, (1 << 21) + 5}, seed), varied("v", DType::kFloat32, {7}, seed)};
  };
  const Path a = save(large(1), 1), b = save(large(2), 2, 2);
  average_checkpoints(std::vector<AverageInput>{{a, 0.25}, {b, 0.5}}, scratch / "mean", progress);
  EXPECT_GT(Reader::open(scratch / "mean").metadata().tensors.back().items.size(), 1u);
  const std::string script = R"(
import sys
import numpy as np
import torch
import torch.distributed.checkpoint as dcp

def read(folder):
    state = {"w": torch.zeros(3, (1 << 21) + 5), "v": torch.zeros(7)}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return {name: value.numpy().astype(np.float64) for name, value in state.items()}

a, b, mean = (read(folder) for folder in sys.argv[1:])
for name in a:
    assert np.array_equal(((0.25 * a[name] + 0.5 * b[name]) / 0.75).astype(np.float32), mean[name]), name
print("equal")
)";
  EXPECT_EQ(run_python(scratch, script, fmt::format("{} {} {}", a.string(), b.string(), (scratch / "mean").string())),
            "equal\n");
}

TEST_F(AverageTest, NarrowWeightsStayNarrow) {
  const Path a = save({varied("w", DType::kBFloat16, {9}, 1)}, 1), b = save({varied("w", DType::kBFloat16, {9}, 2)}, 2);
  average_checkpoints(std::vector<AverageInput>{{a, 1}, {b, 1}}, scratch / "mean", progress);
  const auto wide = [](const Path& folder) {
    Reader reader = Reader::open(folder);
    std::vector<std::byte> out;
    formats::cast(read_whole(reader, {{"w", DType::kBFloat16, {9}}, std::vector<std::byte>(18)}), DType::kBFloat16,
                  DType::kFloat32, out);
    return floats_of(out);
  };
  const std::vector<float> first = wide(a), second = wide(b), mean = wide(scratch / "mean");
  for (size_t i = 0; i < mean.size(); ++i) {
    const float exact = (first[i] + second[i]) / 2;
    EXPECT_LE(std::abs(mean[i] - exact), std::abs(exact) / 256) << i;  // 8 bits of a fraction
  }
}

TEST_F(AverageTest, TheManifestIsThatOfTheNewestWithoutWhatTheMeanLacks) {
  const Path newest = save(model(1), 40), older = save(model(2), 30);
  average_checkpoints(std::vector<AverageInput>{{older, 3}, {newest, 1}}, scratch / "mean", progress);
  const Manifest m = Reader::open(scratch / "mean").manifest(), n = Reader::open(newest).manifest();
  EXPECT_EQ(m.step, 40);
  EXPECT_EQ(m.tokens_seen, n.tokens_seen);
  EXPECT_EQ(m.config_toml, n.config_toml);
  EXPECT_EQ(m.tokenizer_hash, n.tokenizer_hash);
  EXPECT_EQ(m.parent, "step-00000040");
  EXPECT_TRUE(m.metrics.empty());
  EXPECT_EQ(m.state("health"), "{}");
  EXPECT_EQ(m.state("data"), n.state("data"));
  const std::string list = m.state(kAverageState);
  EXPECT_THAT(list, HasSubstr(R"("name":"step-00000030","step":30)"));
  EXPECT_THAT(list, HasSubstr(R"("weight":3.0)"));
}

TEST_F(AverageTest, WhatHasNoMeanIsRefusedAndLeavesNothing) {
  const Path a = save(model(1), 10), b = save(model(2), 20);
  EXPECT_THAT(refused({{a, 1}}).message(), HasSubstr("two checkpoints"));
  EXPECT_THAT(refused({{a, 1}, {b, 0}}).message(), HasSubstr("step-00000020 has the weight 0"));
  EXPECT_THAT(refused({{a, 1}, {b, std::numeric_limits<double>::infinity()}}).message(), HasSubstr("inf"));
  EXPECT_THAT(refused({{a, 1}, {b, 1}, {a, 1}}).message(), HasSubstr("the same weights"));
  EXPECT_THAT(refused({{a, 1}, {scratch / "nowhere", 1}}).message(), HasSubstr("nowhere"));

  std::vector<ExampleTensor> other = model(3);
  other[1] = varied("layers.0.attention.wq.weight", DType::kFloat32, {5, 6}, 3);
  const std::string shapes = refused({{a, 1}, {save(other, 30), 1}}).message();
  EXPECT_THAT(shapes, HasSubstr("different weights"));
  EXPECT_THAT(shapes, HasSubstr("layers.0.attention.wq.weight: float32 [6, 5] and float32 [5, 6]"));
  other = model(3);
  other[2] = varied("norm.weight", DType::kBFloat16, {11}, 3);
  EXPECT_THAT(refused({{a, 1}, {save(other, 31), 1}}).message(), HasSubstr("norm.weight: float32 [11] and bfloat16"));
  other = model(3);
  other[0].info.name = "embeddings";
  const std::string names = refused({{a, 1}, {save(other, 32), 1}}).message();
  EXPECT_THAT(names, HasSubstr("tok_embeddings.weight: missing in the second"));
  EXPECT_THAT(names, HasSubstr("embeddings: missing in the first"));

  const Path ids = save_as(model(4), 40, 1, [](Manifest& m) { m.tokenizer_hash = "other"; });
  EXPECT_THAT(refused({{a, 1}, {ids, 1}}).message(), HasSubstr("different tokenizers"));
  const Path eos = save_as(model(4), 41, 1, [](Manifest& m) { m.eos = 7; });
  EXPECT_THAT(refused({{a, 1}, {eos, 1}}).message(), HasSubstr("EOS 7"));
  config::RunConfig run;
  run.model.rope_theta = 500;
  const Path theta = save_as(model(4), 42, 1, [&](Manifest& m) { m.config_toml = config::to_toml(run); });
  EXPECT_THAT(refused({{a, 1}, {theta, 1}}).message(), HasSubstr("model.rope_theta"));
  // What the training may change does not matter.
  run = {};
  run.training.steps = 77;
  const Path longer = save_as(model(4), 43, 1, [&](Manifest& m) { m.config_toml = config::to_toml(run); });
  average_checkpoints(std::vector<AverageInput>{{a, 1}, {longer, 1}}, scratch / "mean", progress);
  EXPECT_THAT(error_of([&] {
                average_checkpoints(std::vector<AverageInput>{{a, 1}, {b, 1}}, scratch / "mean", progress);
              }).message(),
              HasSubstr("exists already"));

  other = model(5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(other[0].bytes.data() + 8, &nan, 4);
  EXPECT_THAT(refused({{a, 1}, {save(other, 50), 1}}).message(), HasSubstr("NaN or infinite"));
  EXPECT_FALSE(path_exists(scratch / "refused"));
  EXPECT_FALSE(path_exists(scratch / "refused.tmp"));
}

TEST_F(AverageTest, ADamagedInputIsNamed) {
  const Path a = save(model(1), 10), b = save(model(2), 20);
  std::string bytes = read_file(b / "__R_0.distcp");
  bytes[bytes.size() / 5] ^= 1;
  write_file_atomic(b / "__R_0.distcp", bytes);
  const Error error = refused({{a, 1}, {b, 1}});
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr((b / "__R_0.distcp").string()));
  EXPECT_FALSE(path_exists(scratch / "refused"));
  EXPECT_FALSE(path_exists(scratch / "refused.tmp"));
}

}  // namespace
}  // namespace hearth::checkpoint
