// SPDX-License-Identifier: Apache-2.0
#include "models/stage_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "models/llama/block.h"

namespace hearth::models {

std::unique_ptr<Block> make_block(const ModelShape& layer) { return std::make_unique<LlamaBlock>(layer); }

namespace {

// The parameters of the first and the last unit, and the place of each in its unit.
struct Ends {
  ParameterList first, last;
  Weight embedding, embedding_norm, norm, dense, head_norm, bias, output;
};

Ends ends_of(const ModelShape& s) {
  // torchtitan: the output matrix is cut at three standard deviations. A tied matrix is initialised as output matrix:
  // an embedding of N(0, 1) would start with logits of size sqrt(D).
  const double output_std = 1 / std::sqrt(static_cast<double>(s.D));
  const Law normal{Init::kNormal, s.initialization.std};
  const Law output = s.initialization.torchtitan ? Law{Init::kTruncatedNormal, output_std, 3 * output_std} : normal;
  const Law embedding = s.tied || !s.initialization.torchtitan ? output : Law{Init::kNormal, 1};
  const auto norm = [&](ParameterList& unit, const char* name) {
    if (!has_weight(s.norm.type)) return Weight{};
    return unit.add({{name, {s.D}, Cut::kNothing, {adds_one(s.norm.type) ? Init::kZeros : Init::kOnes}}});
  };
  Ends ends;
  ends.embedding = ends.first.add({{"tok_embeddings.weight", {s.V, s.D}, Cut::kRows, embedding}});
  if (s.embedding_norm) ends.embedding_norm = norm(ends.first, "embedding_norm.weight");
  ends.norm = norm(ends.last, "norm.weight");
  if (s.prediction_head) {
    ends.dense = ends.last.add({{"head.dense.weight", {s.D, s.D}, Cut::kNothing, output}});
    ends.head_norm = norm(ends.last, "head.norm.weight");
  }
  if (s.decoder_bias)
    ends.bias = (s.tied ? ends.first : ends.last).add({{"decoder.bias", {s.V}, Cut::kRows, {Init::kZeros}}});
  ends.output = s.tied ? ends.embedding : ends.last.add({{"output.weight", {s.V, s.D}, Cut::kRows, output}});
  return ends;
}

}  // namespace

std::vector<UnitSpec> unit_specs(const ModelShape& s) {
  const Ends ends = ends_of(s);
  std::vector<UnitSpec> units = {{"", ends.first.specs()}};
  for (int64_t layer = 0; layer < s.L(); ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    std::vector<ParameterSpec> specs = make_block(s.layer(layer))->parameters();
    const auto experts = std::find_if(specs.begin(), specs.end(), [](const auto& spec) { return spec.expert >= 0; });
    std::vector<ParameterSpec> of_experts(experts, specs.end());
    specs.erase(experts, specs.end());
    units.push_back({prefix, std::move(specs), layer});
    if (!of_experts.empty()) units.push_back({prefix, std::move(of_experts), layer, /*of_experts=*/true});
  }
  units.push_back({"", ends.last.specs()});
  return units;
}

namespace {

// To nearest, ties to even.
double rounded_to_bfloat16(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U));
}

// Writes the program of a stage, section by section.
class StageWriter {
 public:
  StageWriter(Program& p, std::span<const Recompute> recompute)
      : p_(p), s_(p.shape), ends_(ends_of(p.shape)), recompute_(recompute) {
    for (int64_t layer = 0; layer < s_.L(); ++layer) blocks_.push_back(make_block(s_.layer(layer)));
    p_.output_matrix = ends_.output;
    p_.logits_bias = ends_.bias;
    add_buffers();
  }

  void forward() {
    p_.begin(Pass::kForward, Section::kEmbedding);
    if (s_.has_embedding()) {
      const Ref embedding = s_.embedding_norm ? embedding_ : stream_.front();
      p_.step("embedding");
      p_.add(Embedding{ends_.embedding, p_.summands(embedding)});
      p_.sum_rows(embedding);
      scale(embedding, embedding_multiplier());
      if (s_.embedding_norm)
        p_.add(NormForward{s_.norm, stream_.front(), embedding_statistics_, embedding, ends_.embedding_norm});
    } else {
      p_.step("input");
      p_.add(Receive{stream_.front()});
    }
    ResidualStream stream{stream_.front()};
    for (int64_t layer = 0; layer < s_.L(); ++layer) {
      p_.begin(Pass::kForward, Section::kForward, layer);
      stream = block(layer).forward(p_, stream, stream_[static_cast<size_t>(layer)]);
    }
    p_.begin(Pass::kForward, Section::kFinalNorm);
    if (s_.has_output()) {
      const Ref normed = s_.prediction_head ? prediction_input_ : p_.final_input;
      p_.step("last norm");
      p_.add(AddNormForward{s_.norm, stream_.back(), normed, final_statistics_, stream.x, stream.branch, ends_.norm});
      if (s_.prediction_head) predict();
      // Logits are products with these rows. To divide the rows is cheaper than to divide the logits.
      scale(p_.final_input, 1 / s_.logits_divisor);
    } else {
      p_.step("output");
      p_.add(Copy{p_.dstream, stream.x});
      p_.add(Add{p_.dstream, stream.branch});
    }
  }

  void loss() {
    p_.begin(Pass::kForward, Section::kLoss);
    p_.step("output and loss");
    p_.add(Loss{ends_.output, ends_.bias, p_.all_rows(p_.final_input), p_.logits, head_input_});
  }

  void loss_and_gradient() {
    p_.begin(Pass::kBackward, Section::kLossAndGradient);
    p_.step("output, loss and their gradients");
    p_.add(Loss{ends_.output, ends_.bias, p_.all_rows(p_.final_input), p_.logits, head_input_, head_gradient_,
                p_.summands(input_gradient_)});
    p_.sum_rows(input_gradient_);
    scale(input_gradient_, 1 / s_.logits_divisor);
    // A training is validated by the same program: this section in place of the one above.
    p_.begin_beside(Section::kLoss);
    p_.add(Loss{ends_.output, ends_.bias, p_.all_rows(p_.final_input), p_.logits, head_input_});
    p_.begin(Pass::kBackward, Section::kFinalNormGradient);
    if (s_.prediction_head) predict_backward();
    p_.step("last norm's gradient");
    p_.add(NormGradient{s_.norm, p_.dstream, input_gradient_, stream_.back(), final_statistics_, ends_.norm});
  }

  void backward() {
    for (int64_t layer = s_.L() - 1; layer >= 0; --layer) {
      p_.begin(Pass::kBackward, Section::kBackward, layer);
      block(layer).backward(p_, p_.dstream,
                            recompute_.empty() ? Recompute::kNone : recompute_[static_cast<size_t>(layer)]);
    }
    if (s_.has_embedding()) {
      p_.begin(Pass::kBackward, Section::kEmbeddingGradient);
      p_.step("embedding's gradient");
      if (s_.embedding_norm)
        p_.add(NormGradient{s_.norm, p_.dstream, p_.dstream, embedding_, embedding_statistics_, ends_.embedding_norm});
      scale(p_.dstream, embedding_multiplier());
      p_.add(EmbeddingGradient{ends_.embedding, p_.all_rows(p_.dstream)});
    }
    if (!p_.in_halves()) return;
    for (int64_t layer = s_.L() - 1; layer >= 0; --layer) {
      p_.begin(Pass::kWeightGradients, Section::kWeightGradients, layer);
      block(layer).weight_gradients(p_);
    }
  }

 private:
  // The prediction head: prediction_input_ -> final_input.
  void predict() {
    p_.step("prediction head");
    p_.add(Linear{prediction_product_, prediction_input_, ends_.dense});
    p_.add(Activate{Activation::kGelu, prediction_activated_, prediction_product_});
    p_.add(NormForward{s_.norm, p_.final_input, prediction_statistics_, prediction_activated_, ends_.head_norm});
  }
  // input_gradient_ becomes the gradient of the head's input.
  void predict_backward() {
    p_.step("prediction head's gradients");
    p_.add(NormGradient{s_.norm, input_gradient_, input_gradient_, prediction_activated_, prediction_statistics_,
                        ends_.head_norm});
    p_.add(ActivateGradient{Activation::kGelu, prediction_product_, input_gradient_, Ref{}});
    p_.add(LinearWeightGradient{ends_.dense, prediction_product_, prediction_input_});
    p_.add(LinearInputGradient{input_gradient_, prediction_product_, ends_.dense});
  }
  void scale(const Ref& rows, double factor) {
    if (factor != 1) p_.add(Scale{rows, rows, factor});
  }
  // transformers' Gemma keeps the multiplier in the type of its weights.
  double embedding_multiplier() const {
    const bool rounds = s_.round_embedding_multiplier && p_.size.dtype == DType::kBFloat16;
    return rounds ? rounded_to_bfloat16(s_.embedding_multiplier) : s_.embedding_multiplier;
  }
  Block& block(int64_t layer) { return *blocks_[static_cast<size_t>(layer)]; }

  void add_buffers() {
    const std::vector<int64_t> stream = {p_.rows(), s_.D};
    const bool trains = p_.backward != Backward::kNone;
    for (int64_t layer = 0; layer < s_.L(); ++layer) stream_.push_back(p_.add_buffer("stream", layer, stream));
    if (s_.has_output()) stream_.push_back(p_.add_buffer("stream", s_.L(), stream));
    for (int64_t layer = 0; layer < s_.L(); ++layer) block(layer).add_kept_buffers(p_, layer);
    p_.input = stream_.front();
    const std::vector<int64_t> statistics = {is_centred(s_.norm.type) ? 2 : 1, p_.rows()};
    if (s_.has_output()) {
      p_.final_input = p_.shared_buffer("final_input", stream);
      final_statistics_ = p_.shared_buffer("final_statistics", statistics, p_.exact());
    }
    if (s_.embedding_norm && s_.has_embedding()) {
      embedding_ = p_.shared_buffer("embedding", stream);
      embedding_statistics_ = p_.shared_buffer("embedding_statistics", statistics, p_.exact());
    }
    if (s_.prediction_head && s_.has_output()) {
      prediction_input_ = p_.shared_buffer("prediction_input", stream);
      prediction_product_ = p_.shared_buffer("prediction_product", stream);
      prediction_activated_ = p_.shared_buffer("prediction_activated", stream);
      prediction_statistics_ = p_.shared_buffer("prediction_statistics", statistics, p_.exact());
    }
    p_.shared_buffer("branch", stream);
    if (s_.has_output()) {
      const int64_t chunk = std::min(p_.tokens(), p_.size.loss_chunk_tokens);
      p_.logits = p_.shared_buffer("logits", {chunk, s_.V});
      if (s_.sparse_labels || !s_.causal) {
        head_input_ = p_.shared_buffer("head_input", {chunk, s_.D});
        if (trains) head_gradient_ = p_.shared_buffer("head_gradient", {chunk, s_.D});
      }
    }
    if (trains || !s_.has_output()) p_.dstream = p_.shared_buffer("stream_gradient", stream);
    if (trains) input_gradient_ = p_.shared_buffer("input_gradient", stream);
    for (int64_t layer = 0; layer < s_.L(); ++layer) block(layer).add_working_buffers(p_, layer);
  }

  Program& p_;
  const ModelShape& s_;
  const Ends ends_;
  std::span<const Recompute> recompute_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Ref> stream_;  // before each block, and before the final norm
  Ref final_statistics_, head_input_, head_gradient_, input_gradient_;
  Ref embedding_, embedding_statistics_;  // before the norm of embeddings
  Ref prediction_input_, prediction_product_, prediction_activated_, prediction_statistics_;  // of the prediction head
};

}  // namespace

Program stage_program(const ModelShape& stage, const MicroBatchSize& size, Backward backward,
                      std::span<const Recompute> recompute, bool uses_cache) {
  Program p(stage, size, backward, uses_cache);
  StageWriter writer(p, recompute);
  writer.forward();
  if (backward == Backward::kNone) {
    if (stage.has_output()) writer.loss();
    return p;
  }
  if (stage.has_output()) writer.loss_and_gradient();
  writer.backward();
  return p;
}

}  // namespace hearth::models
