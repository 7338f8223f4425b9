#include "plan/micro_batch_ops.h"

#include <fmt/format.h>

namespace hearth::plan {

namespace {

using enum Activation;

class Sequence {
 public:
  explicit Sequence(std::span<const Recompute> recompute) : recompute_(recompute) {}

  void forward_block(int64_t l) {
    if (l == 0) {
      add(l, "norm", {{kStream, 0}}, {{kAttentionInput, 0}, {kAttentionStatistics, 0}});
    } else {
      add(l, "norm", {{kMiddle, l - 1}, {kBranch}}, {{kStream, l}, {kAttentionInput, l}, {kAttentionStatistics, l}});
    }
    attend(l, "");
    add(l, "wo", {{kAttention, l}}, {{kBranch}});
    add(l, "norm", {{kStream, l}, {kBranch}}, {{kMiddle, l}, {kFeedForwardInput, l}, {kFeedForwardStatistics, l}});
    add(l, "w1 w3", {{kFeedForwardInput, l}}, {{kGateUp, l}});
    add(l, "swiglu", {{kGateUp, l}}, {{kGated, l}});
    add(l, "w2", {{kGated, l}}, {{kBranch}});
  }

  void backward_block(int64_t l) {
    const Recompute level = recompute_[static_cast<size_t>(l)];
    recompute_for_feedforward(l, level);
    add(l, "w2's input gradient", {{kStreamGradient}}, {{kGatedGradient}});
    // If forward did not keep `gated`, it is computed again into the buffer of its gradient.
    const bool kept = level == Recompute::kNone;
    std::vector<BufferRef> written = {{kGateUp, l}};
    if (!kept) written.push_back({kGatedGradient});
    add(l, "swiglu's gradient", {{kGatedGradient}, {kGateUp, l}}, std::move(written));
    add(l, "w2's gradient", {{kStreamGradient}, kept ? BufferRef{kGated, l} : BufferRef{kGatedGradient}}, {});
    add(l, "w1's and w3's gradients", {{kGateUp, l}, {kFeedForwardInput, l}}, {{kInputGradient}});
    add(l, "the norm's gradient", {{kInputGradient}, {kMiddle, l}, {kFeedForwardStatistics, l}, {kStreamGradient}},
        {{kStreamGradient}});
    recompute_for_attention(l, level);
    add(l, "wo's gradients", {{kStreamGradient}, {kAttention, l}}, {{kAttentionGradient}});
    add(l, "attention's gradient", {{kAttentionGradient}, {kAttention, l}, {kLogSumExp, l}, {kQkv, l}},
        {{kQkvGradient}});
    add(l, "wq's, wk's and wv's gradients", {{kQkvGradient}, {kAttentionInput, l}}, {{kInputGradient}});
    add(l, "the norm's gradient", {{kInputGradient}, {kStream, l}, {kAttentionStatistics, l}, {kStreamGradient}},
        {{kStreamGradient}});
  }

  void add(int64_t layer, std::string_view name, std::vector<BufferRef> reads, std::vector<BufferRef> writes) {
    ops_.push_back({layer < 0 ? std::string(name) : fmt::format("layer {}: {}", layer, name), std::move(reads),
                    std::move(writes)});
  }

  std::vector<Op> take() { return std::move(ops_); }

 private:
  void attend(int64_t l, std::string_view again) {
    add(l, fmt::format("wq wk wv{}", again), {{kAttentionInput, l}}, {{kQkv, l}});
    add(l, fmt::format("attention{}", again), {{kQkv, l}}, {{kAttention, l}, {kLogSumExp, l}});
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
    add(l, "wo again", {{kAttention, l}}, {{kBranch}});
    add(l, "norm again", {{kStream, l}, {kBranch}},
        {{kMiddle, l}, {kFeedForwardInput, l}, {kFeedForwardStatistics, l}});
    add(l, "w1 w3 again", {{kFeedForwardInput, l}}, {{kGateUp, l}});
  }

  void recompute_for_attention(int64_t l, Recompute level) {
    if (level != Recompute::kNone) attention_norm_again(l);
    if (level == Recompute::kAttention) attend(l, " again");
  }

  std::span<const Recompute> recompute_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> micro_batch_ops(int64_t num_layers, std::span<const Recompute> recompute, bool training) {
  const int64_t L = num_layers;
  Sequence sequence(recompute);
  sequence.add(-1, "embedding", {}, {{kStream, 0}});
  for (int64_t layer = 0; layer < L; ++layer) sequence.forward_block(layer);
  sequence.add(-1, "last norm", {{kMiddle, L - 1}, {kBranch}}, {{kStream, L}, {kFinalInput}, {kFinalStatistics}});
  if (!training) {
    sequence.add(-1, "output and loss", {{kFinalInput}}, {{kHeadInput}, {kLogits}});
    return sequence.take();
  }
  sequence.add(-1, "output, loss and their gradients", {{kFinalInput}},
               {{kHeadInput}, {kLogits}, {kHeadGradient}, {kInputGradient}});
  sequence.add(-1, "last norm's gradient", {{kInputGradient}, {kStream, L}, {kFinalStatistics}}, {{kStreamGradient}});
  for (int64_t layer = L - 1; layer >= 0; --layer) sequence.backward_block(layer);
  sequence.add(-1, "embedding's gradient", {{kStreamGradient}}, {});
  return sequence.take();
}

}  // namespace hearth::plan
