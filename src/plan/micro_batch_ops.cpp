#include "plan/micro_batch_ops.h"

#include <fmt/format.h>

namespace hearth::plan {

namespace {

using enum Activation;

class Sequence {
 public:
  Sequence(const ModelShape& shape, std::span<const Recompute> recompute, Backward backward)
      : recompute_(recompute),
        layers_shared_(shape.tensor.size > 1),
        heads_shared_(shape.head_ranks() > 1),
        keys_shared_(shape.key_ranks > 1),
        has_biases_(shape.qkv_bias),
        norms_heads_(shape.qk_norm),
        in_halves_(backward == Backward::kInHalves) {}

  void begin(Pass pass) { pass_ = pass; }

  void forward_block(int64_t l) {
    if (l == 0) {  // of the stage
      add(l, "norm", {{kStream, 0}}, {{kAttentionInput, 0}, {kAttentionStatistics, 0}});
    } else {
      add(l, "norm", {{kMiddle, l - 1}, {kBranch}}, {{kStream, l}, {kAttentionInput, l}, {kAttentionStatistics, l}});
    }
    attend(l, "");
    add(l, "wo", {{kAttention, l}}, summed({kBranch}));
    add(l, "norm", {{kStream, l}, {kBranch}}, {{kMiddle, l}, {kFeedForwardInput, l}, {kFeedForwardStatistics, l}});
    add(l, "w1 w3", {{kFeedForwardInput, l}}, gathered({kGateUp, l}));
    add(l, "swiglu", {{kGateUp, l}}, {{kGated, l}});
    add(l, "w2", {{kGated, l}}, summed({kBranch}));
  }

  void backward_block(int64_t l) {
    const Recompute level = recompute_[static_cast<size_t>(l)];
    recompute_for_feedforward(l, level);
    if (in_halves_) add(l, "w2's output gradient", {{kStreamGradient}}, {{kFeedForwardBranchGradient, l}});
    add(l, "w2's input gradient", {{kStreamGradient}}, gathered({kGatedGradient}));
    // If forward did not keep `gated`, it is computed again, into the buffer of its gradient unless it is read later.
    const bool kept = level == Recompute::kNone;
    const BufferRef gated = kept || in_halves_ ? BufferRef{kGated, l} : BufferRef{kGatedGradient};
    std::vector<BufferRef> of_swiglu = {{kGateUp, l}};
    if (!kept) of_swiglu.push_back(gated);
    add(l, "swiglu's gradient", {{kGatedGradient}, {kGateUp, l}}, std::move(of_swiglu));
    if (in_halves_) {
      add(l, "w1's and w3's input gradient", {{kGateUp, l}}, summed({kInputGradient}));
    } else {
      add(l, "w2's gradient", {{layers_shared_ ? kGatheredRows : kStreamGradient}, gated}, {});
      add(l, "w1's and w3's gradients", {{kGateUp, l}, {kFeedForwardInput, l}}, gathered_and_summed({kInputGradient}));
    }
    add(l, "the norm's gradient", {{kInputGradient}, {kMiddle, l}, {kFeedForwardStatistics, l}, {kStreamGradient}},
        {{kStreamGradient}});
    recompute_for_attention(l, level);
    if (in_halves_) {
      add(l, "wo's output gradient", {{kStreamGradient}}, {{kAttentionBranchGradient, l}});
      add(l, "wo's input gradient", {{kStreamGradient}}, gathered({kAttentionGradient}));
    } else {
      add(l, "wo's gradients", {{kStreamGradient}, {kAttention, l}}, gathered({kAttentionGradient}));
    }
    const BufferRef qkv_gradient{kQkvGradient, in_halves_ ? l : 0};
    exchange(l, {kAttentionGradient}, {kAttentionHeadsGradient});
    if (level < Recompute::kAttention) gather_keys(l);  // else they are still there
    std::vector<BufferRef> read = operands(l), written = {of_heads(qkv_gradient, {kQkvHeadsGradient})};
    for (const BufferRef& more : {of_heads({kAttentionGradient}, {kAttentionHeadsGradient}),
                                  of_heads({kAttention, l}, {kAttentionHeads, l}), BufferRef{kLogSumExp, l}})
      read.push_back(more);
    if (keys_shared_) written.push_back({kKeysValuesGradient});
    add(l, "attention's gradient", std::move(read), std::move(written));
    if (keys_shared_) {
      add(l, "sum of the keys' and values' gradients",
          {{kKeysValuesGradient}, of_heads(qkv_gradient, {kQkvHeadsGradient})},
          {{kKeyExchange}, of_heads(qkv_gradient, {kQkvHeadsGradient})});
    }
    exchange(l, {kQkvHeadsGradient}, qkv_gradient);
    if (norms_heads_) {
      add(l, "the head norms' gradients", {qkv_gradient, {kHeadNormInput, l}, {kHeadNormStatistics, l}},
          {qkv_gradient});
    }
    if (has_biases_) add(l, "the biases' gradients", {qkv_gradient}, {});
    if (in_halves_) {
      add(l, "wq's, wk's and wv's input gradient", {qkv_gradient}, summed({kInputGradient}));
    } else {
      add(l, "wq's, wk's and wv's gradients", {qkv_gradient, {kAttentionInput, l}},
          gathered_and_summed({kInputGradient}));
    }
    add(l, "the norm's gradient", {{kInputGradient}, {kStream, l}, {kAttentionStatistics, l}, {kStreamGradient}},
        {{kStreamGradient}});
  }

  void weight_gradients_of_block(int64_t l) {
    add(l, "w2's gradient", {{kFeedForwardBranchGradient, l}, {kGated, l}}, gathered());
    add(l, "w1's and w3's gradients", {{kGateUp, l}, {kFeedForwardInput, l}}, gathered());
    add(l, "wo's gradient", {{kAttentionBranchGradient, l}, {kAttention, l}}, gathered());
    add(l, "wq's, wk's and wv's gradients", {{kQkvGradient, l}, {kAttentionInput, l}}, gathered());
  }

  void add(int64_t layer, std::string_view name, std::vector<BufferRef> reads, std::vector<BufferRef> writes) {
    ops_.push_back({pass_, layer < 0 ? std::string(name) : fmt::format("layer {}: {}", layer, name), std::move(reads),
                    std::move(writes)});
  }

  std::vector<Op> take() { return std::move(ops_); }

  // What an op writes that gathers the rows of its input first, or whose output is summed over ranks, or both.
  std::vector<BufferRef> gathered() const {
    return layers_shared_ ? std::vector<BufferRef>{{kGatheredRows}} : std::vector<BufferRef>();
  }
  std::vector<BufferRef> gathered(BufferRef output) const { return with({kGatheredRows}, output); }
  std::vector<BufferRef> summed(BufferRef output) const { return with({kPartialRows}, output); }
  std::vector<BufferRef> gathered_and_summed(BufferRef output) const {
    return with({kGatheredRows, kPartialRows}, output);
  }

 private:
  std::vector<BufferRef> with(std::initializer_list<Activation> rows, BufferRef output) const {
    std::vector<BufferRef> written;
    if (layers_shared_)
      for (const Activation which : rows) written.push_back({which});
    written.push_back(output);
    return written;
  }
  void attend(int64_t l, std::string_view again) {
    std::vector<BufferRef> written = gathered(of_heads({kQkv, l}, {kQkvRows}));
    if (norms_heads_) written.insert(written.end(), {{kHeadNormInput, l}, {kHeadNormStatistics, l}});
    add(l, fmt::format("wq wk wv{}", again), {{kAttentionInput, l}}, std::move(written));
    exchange(l, {kQkvRows}, {kQkv, l});
    gather_keys(l);
    add(l, fmt::format("attention{}", again), operands(l),
        {of_heads({kAttention, l}, {kAttentionHeads, l}), {kLogSumExp, l}});
    exchange(l, {kAttentionHeads, l}, {kAttention, l});
  }
  // What attention, or its neighbours, use in place of `one` where ranks exchange heads.
  BufferRef of_heads(BufferRef one, BufferRef several) const { return heads_shared_ ? several : one; }
  void exchange(int64_t l, BufferRef from, BufferRef to) {
    if (heads_shared_) add(l, "exchange of heads", {from}, {{kExchange}, to});
  }
  void gather_keys(int64_t l) {
    if (keys_shared_) add(l, "gather of keys and values", {{kQkv, l}}, {{kKeyExchange}, {kKeysValues}});
  }
  // What attention reads: queries, and keys and values.
  std::vector<BufferRef> operands(int64_t l) const {
    return keys_shared_ ? std::vector<BufferRef>{{kQkv, l}, {kKeysValues}} : std::vector<BufferRef>{{kQkv, l}};
  }
  void attention_norm_again(int64_t l) {
    add(l, "norm again", {{kStream, l}}, {{kAttentionInput, l}, {kAttentionStatistics, l}});
  }

  void recompute_for_feedforward(int64_t l, Recompute level) {
    if (level == Recompute::kNorms || level == Recompute::kAttention) {
      add(l, "norm again", {{kMiddle, l}}, {{kFeedForwardInput, l}, {kFeedForwardStatistics, l}});
    }
    if (level != Recompute::kBlock) return;
    attention_norm_again(l);
    attend(l, " again");
    add(l, "wo again", {{kAttention, l}}, summed({kBranch}));
    add(l, "norm again", {{kStream, l}, {kBranch}},
        {{kMiddle, l}, {kFeedForwardInput, l}, {kFeedForwardStatistics, l}});
    add(l, "w1 w3 again", {{kFeedForwardInput, l}}, gathered({kGateUp, l}));
  }

  void recompute_for_attention(int64_t l, Recompute level) {
    if (level != Recompute::kNone) attention_norm_again(l);
    if (level == Recompute::kAttention) attend(l, " again");
  }

  std::span<const Recompute> recompute_;
  const bool layers_shared_, heads_shared_, keys_shared_, has_biases_, norms_heads_, in_halves_;
  Pass pass_ = Pass::kForward;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> micro_batch_ops(const ModelShape& shape, std::span<const Recompute> recompute, Backward backward) {
  const int64_t L = shape.L;
  Sequence sequence(shape, recompute, backward);
  if (shape.has_embedding()) {
    sequence.add(-1, "embedding", {}, sequence.summed({kStream, 0}));
  } else {
    sequence.add(-1, "input", {}, {{kStream, 0}});
  }
  for (int64_t layer = 0; layer < L; ++layer) sequence.forward_block(layer);
  if (shape.has_output()) {
    sequence.add(-1, "last norm", {{kMiddle, L - 1}, {kBranch}}, {{kStream, L}, {kFinalInput}, {kFinalStatistics}});
  } else {
    sequence.add(-1, "output", {{kMiddle, L - 1}, {kBranch}}, {{kStreamGradient}});
  }
  if (backward == Backward::kNone) {
    if (!shape.has_output()) return sequence.take();
    std::vector<BufferRef> written = sequence.gathered({kLogits});
    written.push_back({kHeadInput});
    sequence.add(-1, "output and loss", {{kFinalInput}}, std::move(written));
    return sequence.take();
  }
  sequence.begin(Pass::kBackward);
  if (shape.has_output()) {
    std::vector<BufferRef> written = sequence.gathered_and_summed({kLogits});
    for (const Activation which : {kHeadInput, kHeadGradient, kInputGradient}) written.push_back({which});
    sequence.add(-1, "output, loss and their gradients", {{kFinalInput}}, std::move(written));
    sequence.add(-1, "last norm's gradient", {{kInputGradient}, {kStream, L}, {kFinalStatistics}}, {{kStreamGradient}});
  }
  for (int64_t layer = L - 1; layer >= 0; --layer) sequence.backward_block(layer);
  if (shape.has_embedding()) sequence.add(-1, "embedding's gradient", {{kStreamGradient}}, sequence.gathered());
  if (backward == Backward::kWhole) return sequence.take();
  sequence.begin(Pass::kWeightGradients);
  for (int64_t layer = L - 1; layer >= 0; --layer) sequence.weight_gradients_of_block(layer);
  return sequence.take();
}

}  // namespace hearth::plan
