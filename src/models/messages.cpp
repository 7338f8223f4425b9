// SPDX-License-Identifier: Apache-2.0
#include "models/messages.h"

#include <span>
#include <variant>
#include <vector>

#include "models/stage_program.h"

namespace hearth::models {
namespace {

class Sender {
 public:
  explicit Sender(const Program& program) : p(program), s(program.shape) {}

  Messages operator()(const GatherRows& op) const { return tensor(op.all); }
  Messages operator()(const SumRows& op) const { return tensor(op.summands); }
  Messages operator()(const SharedLinearGradients& op) const {
    return {.tensor = tensor(op.gathered).tensor + tensor(op.partial).tensor};
  }
  Messages operator()(const SumOverRanks& op) const { return {.tensor = 2 * tensor(op.sums).tensor}; }
  Messages operator()(const RowsToHeads& op) const { return heads(op.exchange, op.has_keys); }
  Messages operator()(const HeadsToRows& op) const { return heads(op.exchange, op.has_keys); }
  Messages operator()(const SumLoads& op) const {
    return {.tensor = op.tensor ? 2 * sent_share(s.tensor.size) * bytes(op.loads) : 0,
            .context = 2 * (sent_share(s.head_ranks()) + sent_share(s.key_ranks)) * bytes(op.loads)};
  }
  Messages operator()(const SendRows& op) const { return experts(op.from); }
  Messages operator()(const ReturnRows& op) const { return experts(op.to); }
  Messages operator()(const GatherKeys& op) const { return keys(op.exchange); }
  Messages operator()(const SumKeyGradients& op) const { return keys(op.exchange); }
  template <class Other>
  Messages operator()(const Other& /*op*/) const {
    return {};
  }

 private:
  double bytes(const Ref& ref) const {
    const Buffer& buffer = p.buffer(ref);
    auto product = static_cast<double>(dtype_size(buffer.dtype));
    for (const int64_t size : buffer.shape) product *= static_cast<double>(size);
    return product;
  }
  Messages tensor(const Ref& whole) const { return {.tensor = sent_share(s.tensor.size) * bytes(whole)}; }
  // On average as much comes back as goes.
  Messages experts(const Ref& sent) const { return {.experts = sent_share(s.expert_part.size) * bytes(sent)}; }
  // The buffer of an exchange is one sequence's, with room for queries, keys and values.
  Messages heads(const Ref& exchange, bool has_keys) const {
    const auto queries = static_cast<double>(s.attention_heads()),
               all = queries + 2 * static_cast<double>(s.attention_key_heads());
    const double sequence = bytes(exchange) * (has_keys ? 1 : queries / all);
    return {.context = sent_share(s.head_ranks()) * static_cast<double>(p.size.B) * sequence};
  }
  Messages keys(const Ref& exchange) const {
    return {.context = sent_share(s.key_ranks) * static_cast<double>(p.size.B) * bytes(exchange)};
  }

  const Program& p;
  const ModelShape& s;
};

constexpr Recompute kLevels[] = {Recompute::kNone, Recompute::kNorms, Recompute::kAttention, Recompute::kBlock};

// A model of one layer has all sections.
Program program_of(const ModelShape& part, const Layer& layer, int64_t seq_len, DType dtype, Backward backward,
                   Recompute level) {
  ModelShape model = part;
  model.stage = {};
  model.layers = {layer};
  return stage_program(model, {1, seq_len, dtype, seq_len}, backward, std::span(&level, 1));
}

ModelMessages count(const ModelShape& part, int64_t seq_len, DType dtype, Backward backward) {
  const LayerKinds layers = layer_kinds(part);
  ModelMessages sum;
  std::vector<BlockMessages> kinds;
  for (const Layer& kind : layers.kinds) {
    BlockMessages& block = kinds.emplace_back();
    for (const Recompute level : kLevels) {
      const Program program = program_of(part, kind, seq_len, dtype, backward, level);
      for (const Step& step : program.steps()) {
        if (step.layer < 0 || (!step.is_repeated && level != Recompute::kNone)) continue;
        for (const Op& op : program.ops_of(step))
          (step.is_repeated ? block.again[static_cast<size_t>(level)] : block.step) += messages(program, op);
      }
    }
  }
  for (const size_t kind : layers.of_layer) sum.layers.push_back(kinds[kind]);
  const Program ends = program_of(part, layers.kinds.front(), seq_len, dtype, backward, Recompute::kNone);
  const auto add = [&](Messages& to, Section section) {
    for (const Op& op : ends.ops_of(section)) to += messages(ends, op);
  };
  for (const Section section : {Section::kEmbedding, Section::kEmbeddingGradient}) add(sum.embedding, section);
  for (const Section section : {Section::kFinalNorm, Section::kLossAndGradient, Section::kFinalNormGradient})
    add(sum.output, section);
  return sum;
}

}  // namespace

Messages messages(const Program& p, const Op& op) { return std::visit(Sender(p), op); }

// A search of layouts asks for a few parts thousands of times.
ModelMessages model_messages(const ModelShape& part, int64_t seq_len, DType dtype, Backward backward) {
  struct Known {
    ModelShape part;
    int64_t seq_len;
    DType dtype;
    Backward backward;
    ModelMessages messages;
  };
  constexpr size_t kMostKnown = 64;
  thread_local std::vector<Known> known;
  for (const Known& one : known) {
    if (one.seq_len == seq_len && one.dtype == dtype && one.backward == backward && one.part == part)
      return one.messages;
  }
  if (known.size() == kMostKnown) known.clear();
  known.push_back({part, seq_len, dtype, backward, count(part, seq_len, dtype, backward)});
  return known.back().messages;
}

}  // namespace hearth::models
