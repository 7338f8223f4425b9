// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "example.h"
#include "formats/item.h"
#include "support/errors.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

// What a box of a row-major tensor holds, element by element.
std::vector<std::byte> cut(const ExampleTensor& tensor, const mesh::Box& box) {
  const std::vector<int64_t>& shape = tensor.info.shape;
  const size_t element = static_cast<size_t>(dtype_size(tensor.info.dtype));
  std::vector<std::byte> out;
  for (int64_t i = 0; i < numel_of(shape); ++i) {
    int64_t rest = i;
    bool inside = true;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t at = rest % shape[d];
      rest /= shape[d];
      inside = inside && at >= box.offsets[d] && at < box.offsets[d] + box.sizes[d];
    }
    const auto begin = tensor.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * element);
    if (inside) out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(element));
  }
  return out;
}

using test::error_of;

TEST(Load, AnyLayoutOfRanksIntoAnyOther) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  for (const int64_t ranks : {1, 2, 3, 4, 7}) {
    Reader reader = Reader::open(save_example(scratch, tensors, ranks, ranks));
    ASSERT_EQ(reader.tensors().size(), tensors.size());
    for (const int64_t readers : {1, 2, 5}) {
      for (int64_t rank = 0; rank < readers; ++rank) {
        for (const mesh::TensorPiece& piece : flat_pieces(tensors, rank, readers)) {
          std::vector<std::byte> out(piece.bytes.size());
          reader.read(piece.info.name, piece.box, out);
          ASSERT_TRUE(std::equal(out.begin(), out.end(), piece.bytes.begin())) << piece.info.name;
        }
      }
    }
  }
}

TEST(Load, EveryBoxOfACubeHoldsItsElements) {
  const test::ScratchFolder scratch;
  const ExampleTensor cube = example_tensor("cube", DType::kInt16, {3, 4, 5});
  Reader reader = Reader::open(save_example(scratch, {cube}, 1, 4));
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t c = 0; c < 5; ++c) {
        for (int64_t size = 1; size <= 5; ++size) {
          const mesh::Box box{{a, b, c}, {std::min(size, 3 - a), std::min(size, 4 - b), std::min(size, 5 - c)}};
          std::vector<std::byte> out(static_cast<size_t>(2 * box.numel()));
          reader.read("cube", box, out);
          ASSERT_EQ(out, cut(cube, box));
        }
      }
    }
  }
  reader.read("cube", {{1, 1, 1}, {0, 2, 2}}, {});
}

TEST(Load, TensorsAreListedInTheSameOrderForAnyNumberOfRanks) {
  const test::ScratchFolder scratch;
  std::vector<std::string> expected = {"cube",
                                       "layers.2.attention.wq.weight",
                                       "layers.10.attention.wq.weight",
                                       "norm.weight",
                                       "tok_embeddings.weight",
                                       "optimizer.state.norm.weight.exp_avg",
                                       "optimizer.state.norm.weight.step"};
  for (const int64_t ranks : {1, 4}) {
    const Reader reader = Reader::open(save_example(scratch, example_tensors(), ranks, ranks));
    std::vector<std::string> names;
    for (const mesh::TensorInfo& info : reader.tensors()) names.push_back(info.name);
    EXPECT_EQ(names, expected);
  }
}

TEST(Load, ManifestComesBackAsItWasSaved) {
  const test::ScratchFolder scratch;
  const Reader reader = Reader::open(save_example(scratch, example_tensors(), 42, 2));
  const Manifest expected = example_manifest(42, 2);
  const Manifest& m = reader.manifest();
  EXPECT_EQ(m.step, 42);
  EXPECT_EQ(m.tokens_seen, 42000);
  EXPECT_EQ(m.states, expected.states);
  EXPECT_EQ(m.state("data"), R"({"seed":18446744073709551615,"next_sample":336,"order_version":1})");
  EXPECT_EQ(m.tokenizer, "bytes");
  EXPECT_EQ(m.tokenizer_hash, "t0");
  EXPECT_EQ(m.dataset_hash, "d0");
  EXPECT_EQ(m.config_toml, expected.config_toml);
  EXPECT_EQ(m.metrics, expected.metrics);  // to the bit
  EXPECT_EQ(m.ranks, 2);
  EXPECT_EQ(m.parent, "step-00000001");
  EXPECT_EQ(m.libtorch_version, "2.11.0");
  EXPECT_EQ(m.code_version, expected.code_version);
  EXPECT_EQ(m.created.size(), 20u);
}

TEST(Load, ATensorOfAnotherShapeOrTypeIsNamedWithBoth) {
  const test::ScratchFolder scratch;
  const Reader reader = Reader::open(save_example(scratch, example_tensors(), 1, 1));
  EXPECT_EQ(reader.require("norm.weight", DType::kBFloat16, {11}).shape, (std::vector<int64_t>{11}));
  const Error shape = error_of([&] { reader.require("norm.weight", DType::kBFloat16, {12}); });
  EXPECT_EQ(shape.code(), ExitCode::kUser);
  EXPECT_THAT(shape.message(), HasSubstr("norm.weight does not fit")) << shape.what();
  EXPECT_EQ(shape.why(), "expected bfloat16 [12], found bfloat16 [11]");
  const Error type = error_of([&] { reader.require("cube", DType::kFloat32, {3, 4, 5}); });
  EXPECT_EQ(type.why(), "expected float32 [3, 4, 5], found int64 [3, 4, 5]");
}

TEST(Load, AMissingTensorIsNamed) {
  const test::ScratchFolder scratch;
  Reader reader = Reader::open(save_example(scratch, example_tensors(), 1, 1));
  const Error required = error_of([&] { reader.require("output.weight", DType::kFloat32, {2, 2}); });
  EXPECT_EQ(required.code(), ExitCode::kUser);
  EXPECT_THAT(required.message(), HasSubstr("has no tensor output.weight"));
  std::vector<std::byte> out(16);
  const Error read = error_of([&] { reader.read("output.weight", {{0, 0}, {2, 2}}, out); });
  EXPECT_THAT(read.message(), HasSubstr("has no tensor output.weight"));
}

TEST(Load, WeightsUnderTheModelPrefixAreFound) {
  const test::ScratchFolder scratch;
  const ExampleTensor weight = example_tensor("model.norm.weight", DType::kFloat32, {5});
  Reader reader = Reader::open(save_example(scratch, {weight}, 1, 1));
  ASSERT_NE(reader.find("norm.weight"), nullptr);
  std::vector<std::byte> out(20);
  reader.read("norm.weight", {{0}, {5}}, out);
  EXPECT_EQ(out, weight.bytes);
}

TEST(Load, WhatIsNotACheckpointIsSaidToBeNone) {
  const test::ScratchFolder scratch;
  const Error missing = error_of([&] { Reader::open(scratch / "nowhere"); });
  EXPECT_EQ(missing.code(), ExitCode::kUser);
  EXPECT_THAT(missing.message(), HasSubstr("there is no checkpoint"));
  const Error empty = error_of([&] { Reader::open(scratch); });
  EXPECT_EQ(empty.code(), ExitCode::kUser);
  EXPECT_THAT(empty.message(), HasSubstr("is not a checkpoint"));
}

TEST(Load, AnItemWithFewerBytesThanItsTensorNeedsIsDamage) {
  const test::ScratchFolder scratch;
  const auto write = [&](const std::string& name, formats::ZipWriter& zip) {
    File file = File::create(scratch / name);
    for (const std::span<const std::byte> part : zip.pieces()) file.write(part);
    return file;
  };
  const ExampleTensor tensor = example_tensor("w", DType::kFloat32, {6});
  formats::ZipWriter whole;
  formats::add_tensor(whole, DType::kFloat32, {6}, tensor.bytes);
  const File good = write("good", whole);
  const std::vector<formats::ZipMember> members = formats::read_zip_directory(good, 0, good.size_bytes(), "good");
  const formats::ZipMember* pickle = formats::find_member(members, "data.pkl");
  ASSERT_NE(pickle, nullptr);
  std::string pickle_bytes(static_cast<size_t>(pickle->length), '\0');
  good.read_at(pickle->offset, std::as_writable_bytes(std::span(pickle_bytes)));
  for (const size_t elements : {5u, 6u}) {
    formats::ZipWriter zip;
    zip.add("archive/data.pkl", pickle_bytes);
    zip.add("archive/data/0", std::span(tensor.bytes).first(4 * elements));
    const File file = write("part", zip);
    if (elements == 6) {
      EXPECT_EQ(formats::read_tensor_layout(file, 0, file.size_bytes(), "part").sizes, (std::vector<int64_t>{6}));
    } else {
      const Error error = error_of([&] { formats::read_tensor_layout(file, 0, file.size_bytes(), "part"); });
      EXPECT_EQ(error.message(), "part: the tensor needs 6 elements, 5 are stored");
    }
  }
}

TEST(Load, AHoleAndAnOverlapInPyTorchsMetadataAreNamed) {
  // A directory without our manifest whose .metadata lists too few boxes, then one box twice at another offset.
  const test::ScratchFolder scratch;
  const ExampleTensor tensor = example_tensor("w", DType::kFloat32, {4, 3});
  const Path folder = save_example(scratch, {tensor}, 1, 2);
  formats::Metadata metadata = Reader::open(folder).metadata();
  remove_file(folder / kManifestFile);
  const std::vector<formats::Item> items = metadata.tensors[0].items;
  ASSERT_EQ(items.size(), 2u);
  std::vector<std::byte> out(tensor.bytes.size());

  metadata.tensors[0].items = {items[0]};
  write_file_atomic(folder / kMetadataFile, formats::format_metadata(metadata));
  Reader hole = Reader::open(folder);
  const Error missing = error_of([&] { hole.read("w", whole_box({4, 3}), out); });
  EXPECT_EQ(missing.code(), ExitCode::kDamaged);
  EXPECT_THAT(missing.message(), HasSubstr("w is incomplete")) << missing.what();
  EXPECT_THAT(missing.why(), HasSubstr("6 are missing")) << missing.what();
  hole.read("w", {{0, 0}, {2, 3}}, std::span(out).first(24));  // what is there can be read

  metadata.tensors[0].items = items;
  metadata.tensors[0].items[1].box.offsets = {1, 0};
  write_file_atomic(folder / kMetadataFile, formats::format_metadata(metadata));
  Reader overlap = Reader::open(folder);
  const Error twice = error_of([&] { overlap.read("w", whole_box({4, 3}), out); });
  EXPECT_THAT(twice.message(), HasSubstr("stored twice at [1, 0]")) << twice.what();
}

}  // namespace
}  // namespace hearth::checkpoint
