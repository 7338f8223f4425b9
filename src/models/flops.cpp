// SPDX-License-Identifier: Apache-2.0
#include "models/flops.h"

#include <numeric>
#include <variant>

#include "models/stage_program.h"

namespace hearth::models {
namespace {

class Counter {
 public:
  explicit Counter(const Program& program) : p(program) {}

  double operator()(const Linear& op) const { return product(op.out, op.x); }
  double operator()(const LinearInputGradient& op) const { return product(op.dx, op.dy); }
  double operator()(const LinearWeightGradient& op) const { return product(op.dy, op.x); }
  double operator()(const SharedLinearGradients& op) const { return 2 * product(op.dx, op.dy); }
  double operator()(const Attention& op) const { return attention(op.out, op.reach); }
  double operator()(const AttentionGradient& op) const { return 2 * attention(op.out, op.reach); }
  double operator()(const Route& op) const { return product(op.to.scores, op.x); }
  double operator()(const RouterInputGradient& op) const { return product(op.dlogits, op.dx); }
  double operator()(const RouterWeightGradient& op) const { return product(op.dlogits, op.x); }
  double operator()(const ExpertsLinear& op) const { return rows_of_token(op.x) * product(op.out, op.x); }
  double operator()(const ExpertsInputGradient& op) const { return rows_of_token(op.dy) * product(op.dx, op.dy); }
  double operator()(const ExpertsWeightGradient& op) const { return rows_of_token(op.dy) * product(op.dy, op.x); }
  double operator()(const Loss& op) const {
    const double counted = op.counted.exists() ? p.shape.counted : 1;
    return (op.dinput.exists() ? 3 : 1) * counted * product(op.logits, op.input);
  }
  template <class Other>
  double operator()(const Other& /*op*/) const {
    return 0;
  }

 private:
  double columns(const Ref& ref) const {
    return static_cast<double>(ref.columns > 0 ? ref.columns : p.buffer(ref).shape.at(1));
  }
  double product(const Ref& a, const Ref& b) const { return 2 * columns(a) * columns(b); }
  // Buffers for rows that arrive have room for more than usual: on average as many arrive as a rank sends.
  double rows_of_token(const Ref& ref) const {
    const Buffer& buffer = p.buffer(ref);
    const int64_t rows = buffer.varies ? p.rows() * p.shape.moe_top_k : buffer.shape.at(0);
    return static_cast<double>(rows) / static_cast<double>(p.tokens());
  }
  // Two products over all pairs of positions that see each other. Zeros that fill up values are no part of the model.
  double attention(const Ref& out, int64_t reach) const {
    const double filled = static_cast<double>(p.shape.K + p.shape.value_width()) / static_cast<double>(2 * p.shape.K);
    return 4 * filled * columns(out) * rows_of_token(out) * visible_keys(p.size.S, p.shape.causal, reach);
  }

  const Program& p;
};

}  // namespace

double visible_keys(int64_t S, bool causal, int64_t reach) {
  const double all = static_cast<double>(S);
  if (reach < 0 || reach >= S) return causal ? all / 2 : all;
  const double side = static_cast<double>(reach), lost = side * side / all;  // where the sequence begins, or ends
  return causal ? side - lost / 2 : 2 * side - lost;
}

double flops_per_token(const Program& p, const Op& op) { return std::visit(Counter(p), op); }

namespace {

BlockFlops count_block(const ModelShape& shape, const Layer& layer, int64_t seq_len) {
  // A stage between two others.
  ModelShape stage = shape;
  stage.layers = {layer};
  stage.stage = {.first = 1, .total = 3};
  BlockFlops flops;
  for (const Recompute level : {Recompute::kNone, Recompute::kNorms, Recompute::kAttention, Recompute::kBlock}) {
    const Program program =
        stage_program(stage, {1, seq_len, DType::kFloat32, 1}, Backward::kWhole, std::span(&level, 1));
    double& again = flops.again[static_cast<size_t>(level)];
    for (const Step& step : program.steps()) {
      for (const Op& op : program.ops_of(step)) {
        const double of_op = flops_per_token(program, op);
        if (step.is_repeated) again += of_op;
        if (level != Recompute::kNone) continue;
        (step.pass == Pass::kForward ? flops.forward : flops.backward) += of_op;
        const bool of_weights = std::holds_alternative<LinearWeightGradient>(op) ||
                                std::holds_alternative<RouterWeightGradient>(op) ||
                                std::holds_alternative<ExpertsWeightGradient>(op);
        if (of_weights) flops.weight_gradients += of_op;
      }
    }
  }
  return flops;
}

}  // namespace

// A search of layouts asks for one model thousands of times.
ModelFlops model_flops(const ModelShape& shape, int64_t seq_len) {
  struct Known {
    ModelShape shape{};
    int64_t seq_len = 0;
    ModelFlops flops{};
  };
  thread_local Known known;
  if (known.seq_len == seq_len && known.shape == shape) return known.flops;
  const LayerKinds layers = layer_kinds(shape);
  std::vector<BlockFlops> kinds;
  for (const Layer& kind : layers.kinds) kinds.push_back(count_block(shape, kind, seq_len));
  const auto D = static_cast<double>(shape.D);
  ModelFlops flops{{}, 6 * static_cast<double>(shape.V) * D, shape.prediction_head ? 6 * D * D : 0};
  for (const size_t kind : layers.of_layer) flops.layers.push_back(kinds[kind]);
  known = {shape, seq_len, flops};
  return flops;
}

BlockFlops& BlockFlops::operator+=(const BlockFlops& other) {
  forward += other.forward;
  backward += other.backward;
  weight_gradients += other.weight_gradients;
  for (size_t level = 0; level < again.size(); ++level) again[level] += other.again[level];
  return *this;
}

double ModelFlops::step() const {
  return std::accumulate(layers.begin(), layers.end(), output + head,
                         [](double sum, const BlockFlops& layer) { return sum + layer.step(); });
}

}  // namespace hearth::models
