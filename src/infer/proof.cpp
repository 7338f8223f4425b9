// SPDX-License-Identifier: Apache-2.0
#include "infer/proof.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "comm/group.h"
#include "formats/cast.h"
#include "infer/decoding.h"
#include "ops/tensor.h"
#include "parallel/shard_pieces.h"
#include "parallel/sharded_weights.h"
#include "plan/run_shape.h"
#include "run/state.h"

namespace hearth::infer {
namespace {

using Tokens = std::vector<std::vector<int32_t>>;
using Logits = std::vector<std::vector<double>>;  // [T * V] of each sequence

// A model without a tokenizer.
class Side {
 public:
  Side(convert::Source& source, DType compute) : group_(comm::single()) {
    config::RunConfig config;
    config.model = source.description->model;
    config.objective.kind = source.description->objective;
    config.training.dtype = compute;
    run_ = plan::run_shape(config, {.vocab_size = config.model.vocab_size}, plan::Workload::kInference);
    weights_ = std::make_unique<parallel::ShardedWeights>(run_.parameters, run_.precision, *group_,
                                                          parallel::ShardedWeights::Mode::kInference,
                                                          std::vector<bool>{}, plan::Sharding{}, at::kCPU);
    run::load_weights(source.reader, *weights_, {}, run::OtherTypes::kConvert);
  }

  // Gives the weights the values that they have after a conversion to `dtype`.
  void round_to(DType dtype) {
    std::vector<std::byte> rounded, back;
    for (const parallel::ShardPiece& piece : parallel::parameter_pieces(*weights_, parallel::PiecesFor::kLoading)) {
      const std::span<std::byte> bytes = ops::bytes_of(piece.values);
      formats::cast(bytes, piece.dtype, dtype, rounded);
      formats::cast(rounded, dtype, piece.dtype, back);
      std::memcpy(bytes.data(), back.data(), back.size());
    }
    weights_->masters_changed();
  }

  Logits logits(const Tokens& tokens) {
    Logits all;
    for (const std::vector<int32_t>& sequence : tokens) {
      const auto S = static_cast<int64_t>(sequence.size());
      model::Transformer transformer(run_.model, run_.parameters, 1, S,
                                     {.dtype = run_.precision.compute, .loss_chunk_tokens = 64, .device = at::kCPU});
      compute_sequences(transformer, *weights_, sequence, std::vector<int32_t>{0});
      all.push_back(ops::to_doubles(transformer.logits(*weights_).view({-1})));
    }
    return all;
  }

 private:
  std::unique_ptr<comm::Group> group_;
  plan::RunShape run_;
  std::unique_ptr<parallel::ShardedWeights> weights_;
};

Tokens random_sequences(const convert::Description& description) {
  const int64_t most = description.max_positions > 0 ? description.max_positions : kProofLengths[0];
  const RandomKey key = random_key(kProofSeed, "proof of a conversion");
  Tokens sequences;
  uint64_t drawn = 0;
  for (const int64_t length : kProofLengths) {
    std::vector<int32_t>& tokens = sequences.emplace_back();
    for (int64_t i = 0; i < std::max<int64_t>(1, std::min(length, most)); ++i)
      tokens.push_back(
          static_cast<int32_t>(random_uniform(key, drawn++) * static_cast<double>(description.model.vocab_size)));
  }
  return sequences;
}

// NaN where an element is one.
double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::isnan(value) ? value : std::max(largest, std::abs(value));
  return largest;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  HEARTH_CHECK(a.size() == b.size(), "{} logits and {}", a.size(), b.size());
  std::vector<double> differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus<>());
  return largest_of(differences);
}

DType compute_type(convert::Source& source) {
  const bool has_doubles = std::ranges::count(source.reader.tensors(), DType::kFloat64, &mesh::TensorInfo::dtype) > 0;
  return has_doubles ? DType::kFloat64 : DType::kFloat32;
}

}  // namespace

double proof_tolerance(int64_t layers, DType compute) {
  constexpr double kSpread = 32;  // of the roundings of one layer; a random model's differences are 20 times smaller
  const double unit =
      compute == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  return unit * kSpread * static_cast<double>(layers + 1);
}

bool Proof::holds() const {
  return std::all_of(sequences.begin(), sequences.end(), [this](const Sequence& s) {
    return std::isfinite(s.largest_in) && s.difference <= (same_order ? 0 : tolerance * s.largest_in);
  });
}

double Proof::difference() const {
  double largest = 0;
  for (const Sequence& s : sequences)
    largest = std::isnan(s.difference) ? s.difference : std::max(largest, s.difference);
  return largest;
}

std::string Proof::table() const {
  std::string text = "tokens  largest logit: IN         OUT          largest difference\n";
  for (const Sequence& s : sequences)
    text += fmt::format("{:<6}  {:<25.6g}  {:<11.6g}  {:.3g}\n", s.tokens, s.largest_in, s.largest_out, s.difference);
  return text;
}

std::string Proof::sentence() const {
  std::vector<std::string> lengths;
  for (const Sequence& s : sequences) lengths.push_back(std::to_string(s.tokens));
  std::string text = fmt::format(
      "Hearth computed the logits of {} sequences of {} random tokens with the weights "
      "before and after the conversion: ",
      sequences.size(), join(lengths));
  if (same_order) {
    text += "all bits are equal";
  } else {
    double largest = 0;
    for (const Sequence& s : sequences) largest = std::max(largest, s.largest_in);
    text += fmt::format(
        "the largest difference is {:.2g} where the largest logit is {:.3g}. The rows of queries and "
        "keys have another order, so sums are rounded differently",
        difference(), largest);
  }
  if (!dtype) return text + ".";
  double rounding = 0;
  for (const Sequence& s : sequences) rounding = std::max(rounding, s.rounding);
  return text + fmt::format(". Before it the weights were rounded to {}; this alone changes logits by up to {:.2g}.",
                            dtype_name(*dtype), rounding);
}

Proof compare_logits(const convert::Options& options, const convert::Written& written) {
  const c10::InferenceMode no_gradients;
  Proof proof;
  Tokens tokens;
  Logits before, stored, after;
  DType compute = DType::kFloat32;
  config::RopePairs order{};
  {
    convert::Source source = convert::open_source_of(options);
    compute = compute_type(source);
    order = source.description->model.rope_pairs;
    tokens = random_sequences(*source.description);
    Side side(source, compute);
    before = stored = side.logits(tokens);
    if (options.dtype && *options.dtype != compute) {
      side.round_to(*options.dtype);
      before = side.logits(tokens);
      if (before != stored) proof.dtype = options.dtype;
    }
  }
  convert::Source target = convert::open_written(written);
  const config::Model& model = target.description->model;
  proof.same_order = model.rope_pairs == order && !options.upcycling;
  if (!proof.same_order) proof.tolerance = proof_tolerance(model.n_layers, compute);
  after = Side(target, compute).logits(tokens);
  for (size_t i = 0; i < tokens.size(); ++i)
    proof.sequences.push_back({static_cast<int64_t>(tokens[i].size()), largest_of(before[i]), largest_of(after[i]),
                               largest_difference(before[i], after[i]), largest_difference(stored[i], before[i])});
  return proof;
}

std::string prove_conversion(const convert::Options& options, const convert::Written& written) {
  const Proof proof = compare_logits(options, written);
  fmt::print("{}", proof.table());
  std::fflush(stdout);
  if (!proof.holds())
    throw damaged(fmt::format("{} would compute other logits than {}", options.out.string(), options.in.string()),
                  fmt::format("the largest difference is {:.3g}; allowed is {}", proof.difference(),
                              proof.same_order ? "none: both add in the same order"
                                               : fmt::format("{:.2g} of the largest logit", proof.tolerance)),
                  "do not use these files, which were left without their name; report the command as a bug");
  return proof.sentence();
}

}  // namespace hearth::infer
