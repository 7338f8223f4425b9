// SPDX-License-Identifier: Apache-2.0
// `hearth convert --verify`: right conversions pass for every kind, and a head in the wrong place does not.
#include "infer/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/foreign.h"
#include "support/errors.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;

convert::Options from_to(const std::string& in, convert::Kind to, const std::string& out) {
  convert::Options options{};
  options.in = in;
  options.out = out;
  options.to = to;
  return options;
}

struct ProofOf : testing::TestWithParam<const char*> {};

// Equal bits where no row moves. Where rows move the differences are at most 1/20 of what is allowed.
TEST_P(ProofOf, EveryKindOfTargetPasses) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f {}", at, GetParam()));
  convert::converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  std::vector<Proof> proofs;
  for (const convert::Kind to : convert::kKinds) {
    convert::Options options = from_to(at + "/native", to, fmt::format("{}/to-{}", at, convert::kind_name(to)));
    if (to == convert::Kind::kNeox) options.to_layout = convert::QkvLayout::kSplit;
    options.prove = [&](const convert::Written& written) {
      EXPECT_FALSE(path_exists(options.out));
      proofs.push_back(compare_logits(options, written));
      return proofs.back().sentence();
    };
    convert::ConvertProgress progress;
    convert::convert(options, progress);
    const Proof& proof = proofs.back();
    EXPECT_TRUE(proof.holds()) << options.out << "\n" << proof.table();
    const bool moves = to == convert::Kind::kMeta || to == convert::Kind::kDcp || to == convert::Kind::kTorchtitan;
    EXPECT_EQ(proof.same_order, !moves);
    EXPECT_EQ(proof.difference() == 0, !moves) << options.out << "\n" << proof.table();
    EXPECT_LT(proof.difference(), proof.tolerance * proof.sequences.front().largest_in / 10 + 1e-300);
    EXPECT_EQ(proof.sequences.size(), 4U);
  }
  EXPECT_EQ(proofs.size(), 7U);
}

INSTANTIATE_TEST_SUITE_P(Models, ProofOf, testing::Values("V=130", "tied=1 dtype=bfloat16", "D=160 H=4 G=2 L=6"),
                         [](const auto& info) { return fmt::format("Model{}", info.index); });

// A mixture of equal experts computes what the dense model computes, whatever its routers choose.
TEST(Proof, AnUpcycledModelComputesWhatTheDenseOneDid) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f V=130", at));
  convert::Options options = from_to(at + "/f/hf", convert::Kind::kNative, at + "/sparse");
  options.upcycling = {5, 3};
  Proof proof;
  options.prove = [&](const convert::Written& written) {
    proof = compare_logits(options, written);
    return proof.sentence();
  };
  convert::ConvertProgress progress;
  convert::convert(options, progress);
  EXPECT_TRUE(proof.holds()) << proof.table();
  EXPECT_FALSE(proof.same_order);
  EXPECT_GT(proof.difference(), 0) << "three weights of a token round when they are added";
  EXPECT_LT(proof.difference(), proof.tolerance * proof.sequences.front().largest_in / 5);

  // Each expert is the dense feed-forward, and routers differ from each other.
  convert::Source dense = convert::open_source_of(from_to(at + "/f/hf", convert::Kind::kNative, at + "/x"));
  convert::Source sparse = convert::open_source_of(from_to(at + "/sparse", convert::Kind::kNative, at + "/x"));
  EXPECT_EQ(sparse.description->model.num_experts, 5);
  EXPECT_EQ(sparse.description->model.moe_top_k, 3);
  const auto bytes_of = [](convert::Source& source, const std::string& name) {
    const mesh::TensorInfo* tensor = source.reader.find(name);
    if (tensor == nullptr) throw std::runtime_error("no " + name);
    mesh::Box box{std::vector<int64_t>(tensor->shape.size()), tensor->shape};
    std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * dtype_size(tensor->dtype)));
    source.reader.read(name, box, bytes);
    return bytes;
  };
  for (const char* matrix : {"w1", "w2", "w3"}) {
    const auto of_dense = bytes_of(dense, fmt::format("layers.1.feed_forward.{}.weight", matrix));
    for (int expert = 0; expert < 5; ++expert)
      EXPECT_EQ(bytes_of(sparse, fmt::format("layers.1.moe.experts.{}.{}.weight", expert, matrix)), of_dense);
  }
  EXPECT_NE(bytes_of(sparse, "layers.0.moe.router.gate.weight"), bytes_of(sparse, "layers.1.moe.router.gate.weight"));
}

TEST(Proof, RowsOfAHeadInAnotherPlaceAreFoundAndNothingGetsTheName) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f V=130", at));
  convert::converted(fmt::format("--to native {0}/f/hf {0}/halves", at));
  convert::converted(fmt::format("--to native --rope-pairs interleaved {0}/f/hf {0}/interleaved", at));
  for (const char* in : {"halves", "interleaved"}) {
    convert::Options options = from_to(at + "/" + in, convert::Kind::kHuggingFace, at + "/hf");
    options.prove = [&](const convert::Written& written) {
      convert::foreign(fmt::format("damage {} model.layers.1.self_attn.q_proj.weight 16", written.folder.string()));
      return prove_conversion(options, written);
    };
    convert::ConvertProgress progress;
    const Error error = test::error_of([&] { convert::convert(options, progress); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_THAT(error.what(), HasSubstr("would compute other logits than"));
    EXPECT_FALSE(path_exists(options.out));
  }
}

TEST(Proof, TheCommandPrintsTheLogitsAndTheCardSaysWhatWasProved) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  convert::foreign(fmt::format("make {}/f V=130", at));
  const std::string same = convert::converted(fmt::format("--verify --to native {0}/f/hf {0}/native", at));
  EXPECT_THAT(same, HasSubstr("largest logit"));
  EXPECT_THAT(same, HasSubstr("wrote"));
  convert::converted(fmt::format("--verify --to hf --dtype float16 {0}/native {0}/half", at));
  const std::string card = read_file(at + "/half/README.md");
  EXPECT_THAT(card, HasSubstr("4 sequences of 1, 7, 32, 64 random tokens"));
  EXPECT_THAT(card, HasSubstr("all bits are equal. Before it the weights were rounded to float16"));
  convert::converted(fmt::format("--verify --to hf --dtype bfloat16 {0}/half {0}/again", at));
  convert::converted(fmt::format("--to hf {0}/native {0}/plain", at));
  EXPECT_THAT(read_file(at + "/plain/README.md"), testing::Not(HasSubstr("logits")));
  EXPECT_THAT(convert::refused(fmt::format("--verify --to dcp {0}/dcp {0}/no", at)), HasSubstr("no folder"));
  convert::converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_THAT(convert::refused(fmt::format("--verify --to dcp {0}/dcp {0}/no", at)),
              HasSubstr("--verify computes with it"));
}

}  // namespace
}  // namespace hearth::infer
