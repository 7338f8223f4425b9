// Records the calls of a training step: every kernel, the arena's buffers that it reads and writes, and the shapes of
// products and attention.
//
// The linker puts the functions below in place of the product's (--wrap: tests/CMakeLists.txt reads their symbols
// here), so the product has no hook. They also spread the arena out: no two buffers share memory, so an address
// identifies its buffer. One source file of a test binary includes this.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention.h"
#include "plan/activations.h"
#include "train/product_time.h"

namespace hearth::train {

using at::Tensor;
using plan::Activation;

// A buffer of the arena, as in the plan.
using Buffer = std::pair<Activation, int64_t>;

struct Call {
  std::string kernel;
  std::vector<Buffer> reads, writes;
  std::vector<int64_t> sizes;  // of a product [M, N, K]; of attention [B, S, H, G, K]
};

class Recorder {
 public:
  plan::ActivationPlan spread(plan::ActivationPlan plan) {
    plan.total_bytes = 0;
    for (plan::ActivationBuffer& buffer : plan.buffers) {
      for (int64_t& offset : buffer.offset_bytes) {
        offset = plan.total_bytes;
        plan.total_bytes += buffer.size_bytes;
      }
    }
    plan.shared_bytes = plan.total_bytes;
    return plan_ = plan;
  }
  void begin_at(const Tensor& stream) {
    base_ = static_cast<const std::byte*>(stream.const_data_ptr()) - plan_[Activation::kStream].offset_bytes.front();
  }
  void add(std::string kernel, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes,
           std::vector<int64_t> sizes = {}) {
    Call call{std::move(kernel), buffers_of(reads), buffers_of(writes), std::move(sizes)};
    if (!call.reads.empty() || !call.writes.empty()) calls.push_back(std::move(call));
  }
  const plan::ActivationPlan& plan() const { return plan_; }

  std::vector<Call> calls;  // only calls with buffers of the arena

 private:
  std::vector<Buffer> buffers_of(const std::vector<Tensor>& tensors) const {
    std::vector<Buffer> buffers;
    for (const Tensor& tensor : tensors) {
      if (!tensor.defined() || base_ == nullptr) continue;
      const int64_t at = static_cast<const std::byte*>(tensor.const_data_ptr()) - base_;
      for (size_t which = 0; which < plan_.buffers.size(); ++which) {
        const plan::ActivationBuffer& buffer = plan_.buffers[which];
        for (size_t copy = 0; copy < buffer.offset_bytes.size(); ++copy) {
          const int64_t begin = buffer.offset_bytes[copy];
          if (begin <= at && at < begin + buffer.size_bytes)
            buffers.emplace_back(static_cast<Activation>(which), static_cast<int64_t>(copy));
        }
      }
    }
    return buffers;
  }

  plan::ActivationPlan plan_;
  const std::byte* base_ = nullptr;
};

Recorder* recorder = nullptr;

// `sizes` as in a Call. All attention counts as its forward.
double flops_of(const std::vector<int64_t>& sizes) {
  double flops = 2;
  for (const int64_t size : sizes) flops *= static_cast<double>(size);
  const bool is_attention = sizes.size() == 5;
  return is_attention ? flops * static_cast<double>(sizes[1]) / static_cast<double>(sizes[3]) : flops;
}

void record(const char* kernel, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes,
            std::vector<int64_t> sizes = {}) {
  if (spend_flops && !sizes.empty()) spend_flops(flops_of(sizes));
  if (recorder != nullptr) recorder->add(kernel, reads, writes, std::move(sizes));
}

// The function after the macro replaces the one with this symbol; `real_NAME` calls the original.
#define HEARTH_WRAP(result, name, symbol, ...)              \
  result real_##name(__VA_ARGS__) asm("__real_" symbol);    \
  result wrapped_##name(__VA_ARGS__) asm("__wrap_" symbol); \
  result wrapped_##name(__VA_ARGS__)

HEARTH_WRAP(plan::ActivationPlan, activation_plan,
            "_ZN6hearth4plan15activation_planERKNS0_10ModelShapeEllNS_5DTypeElNS0_8BackwardESt4spanIKNS0_"
            "9RecomputeELm18446744073709551615EEl",
            const plan::ModelShape& shape, int64_t B, int64_t S, DType dtype, int64_t chunk, plan::Backward backward,
            std::span<const plan::Recompute> recompute, int64_t slots) {
  plan::ActivationPlan plan = real_activation_plan(shape, B, S, dtype, chunk, backward, recompute, slots);
  return recorder == nullptr ? plan : recorder->spread(std::move(plan));
}
HEARTH_WRAP(void, matmul, "_ZN6hearth3ops6matmulERKN2at6TensorES4_S4_", const Tensor& out, const Tensor& a,
            const Tensor& b) {
  record("product", {a}, {out}, {out.size(0), out.size(1), a.size(1)});
  real_matmul(out, a, b);
}
HEARTH_WRAP(void, matmul_float8, "_ZN6hearth3ops13matmul_float8ERKN2at6TensorES4_S4_", const Tensor& out,
            const Tensor& a, const Tensor& b) {
  record("product", {a}, {out}, {out.size(0), out.size(1), a.size(1)});
  real_matmul_float8(out, a, b);
}
HEARTH_WRAP(void, input_gradient, "_ZN6hearth3ops21matmul_input_gradientERKN2at6TensorES4_S4_b", const Tensor& dx,
            const Tensor& dy, const Tensor& w, bool accumulate) {
  record("input gradient", {dy, accumulate ? dx : Tensor()}, {dx}, {dx.size(0), dx.size(1), dy.size(1)});
  real_input_gradient(dx, dy, w, accumulate);
}
HEARTH_WRAP(void, input_gradient_float8, "_ZN6hearth3ops28matmul_input_gradient_float8ERKN2at6TensorES4_S4_",
            const Tensor& dx, const Tensor& dy, const Tensor& w) {
  record("input gradient", {dy}, {dx}, {dx.size(0), dx.size(1), dy.size(1)});
  real_input_gradient_float8(dx, dy, w);
}
HEARTH_WRAP(void, weight_gradient, "_ZN6hearth3ops22matmul_weight_gradientERKN2at6TensorES4_S4_", const Tensor& dw,
            const Tensor& dy, const Tensor& x) {
  record("weight gradient", {dy, x}, {}, {dw.size(0), dw.size(1), dy.size(0)});
  real_weight_gradient(dw, dy, x);
}
HEARTH_WRAP(void, attention, "_ZN6hearth3ops17attention_forwardERKN2at6TensorES4_S4_S4_S4_RKNS0_13AttentionMaskE",
            const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
            const ops::AttentionMask& mask) {
  record("attention", {q, k, v}, {out, lse}, {q.size(0), q.size(1), q.size(2), k.size(2), q.size(3)});
  real_attention(out, lse, q, k, v, mask);
}
HEARTH_WRAP(void, attention_gradient,
            "_ZN6hearth3ops18attention_backwardERKN2at6TensorES4_S4_S4_S4_S4_S4_S4_S4_RKNS0_13AttentionMaskE",
            const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dout, const Tensor& out,
            const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMask& mask) {
  record("attention gradient", {dout, out, lse, q, k, v}, {dq, dk, dv},
         {q.size(0), q.size(1), q.size(2), k.size(2), q.size(3)});
  real_attention_gradient(dq, dk, dv, dout, out, lse, q, k, v, mask);
}
HEARTH_WRAP(void, rope, "_ZN6hearth3ops12rope_forwardERKN2at6TensorES4_bS4_RKNS_4plan6ChunksE", const Tensor& x,
            const Tensor& table, bool halves, const Tensor& starts, const plan::Chunks& positions) {
  record("rope", {x}, {x});
  real_rope(x, table, halves, starts, positions);
}
HEARTH_WRAP(void, rope_gradient, "_ZN6hearth3ops13rope_backwardERKN2at6TensorES4_bS4_RKNS_4plan6ChunksE",
            const Tensor& dx, const Tensor& table, bool halves, const Tensor& starts, const plan::Chunks& positions) {
  record("rope gradient", {dx}, {dx});
  real_rope_gradient(dx, table, halves, starts, positions);
}
HEARTH_WRAP(void, norm, "_ZN6hearth3ops12norm_forwardERKNS_4plan4NormERKN2at6TensorES8_S8_S8_", const plan::Norm& norm,
            const Tensor& y, const Tensor& statistics, const Tensor& x, const Tensor& weight) {
  record("norm", {x}, {y, statistics});
  real_norm(norm, y, statistics, x, weight);
}
HEARTH_WRAP(void, add_norm, "_ZN6hearth3ops16add_norm_forwardERKNS_4plan4NormERKN2at6TensorES8_S8_S8_S8_S8_",
            const plan::Norm& norm, const Tensor& h, const Tensor& y, const Tensor& statistics, const Tensor& x,
            const Tensor& r, const Tensor& weight) {
  record("norm", {x, r}, {h, y, statistics});
  real_add_norm(norm, h, y, statistics, x, r, weight);
}
HEARTH_WRAP(void, norm_gradient, "_ZN6hearth3ops13norm_backwardERKNS_4plan4NormERKN2at6TensorES8_S8_S8_S8_S8_b",
            const plan::Norm& norm, const Tensor& dx, const Tensor& dweight, const Tensor& dy, const Tensor& x,
            const Tensor& statistics, const Tensor& weight, bool accumulate) {
  record("norm gradient", {dy, x, statistics, accumulate ? dx : Tensor()}, {dx});
  real_norm_gradient(norm, dx, dweight, dy, x, statistics, weight, accumulate);
}
HEARTH_WRAP(void, copy, "_ZN6hearth3ops5copy_ERKN2at6TensorES4_", const Tensor& dst, const Tensor& src) {
  record("copy", {src}, {dst});
  real_copy(dst, src);
}
HEARTH_WRAP(void, bias, "_ZN6hearth3ops8add_biasERKN2at6TensorES4_", const Tensor& y, const Tensor& bias) {
  record("bias", {y}, {y});
  real_bias(y, bias);
}
HEARTH_WRAP(void, bias_gradient, "_ZN6hearth3ops13bias_gradientERKN2at6TensorES4_", const Tensor& dbias,
            const Tensor& dy) {
  record("bias gradient", {dy}, {});
  real_bias_gradient(dbias, dy);
}
HEARTH_WRAP(void, swiglu, "_ZN6hearth3ops14swiglu_forwardERKN2at6TensorES4_", const Tensor& a, const Tensor& gate_up) {
  record("swiglu", {gate_up}, {a});
  real_swiglu(a, gate_up);
}
HEARTH_WRAP(void, swiglu_gradient, "_ZN6hearth3ops15swiglu_backwardERKN2at6TensorES4_S4_S4_", const Tensor& dgate_up,
            const Tensor& da, const Tensor& gate_up, const Tensor& a) {
  record("swiglu gradient", {da, gate_up}, {dgate_up, a});
  real_swiglu_gradient(dgate_up, da, gate_up, a);
}
HEARTH_WRAP(void, embedding, "_ZN6hearth3ops17embedding_forwardERKN2at6TensorES4_S4_NS_4plan14VocabularyPartE",
            const Tensor& x, const Tensor& weight, const Tensor& tokens, plan::VocabularyPart part) {
  if (recorder != nullptr) recorder->begin_at(x);
  record("embedding", {}, {x});
  real_embedding(x, weight, tokens, part);
}
HEARTH_WRAP(void, embedding_gradient,
            "_ZN6hearth3ops18embedding_backwardERKN2at6TensorES4_S4_NS_4plan14VocabularyPartE", const Tensor& dweight,
            const Tensor& dx, const Tensor& tokens, plan::VocabularyPart part) {
  record("embedding gradient", {dx}, {});
  real_embedding_gradient(dweight, dx, tokens, part);
}
HEARTH_WRAP(void, loss, "_ZN6hearth3ops21cross_entropy_forwardERKN2at6TensorES4_S4_S4_", const Tensor& sums,
            const Tensor& logits, const Tensor& labels, const Tensor& weights) {
  record("loss", {logits}, {});
  real_loss(sums, logits, labels, weights);
}
HEARTH_WRAP(void, loss_gradient, "_ZN6hearth3ops30cross_entropy_forward_backwardERKN2at6TensorES4_S4_S4_S4_d",
            const Tensor& sums, const Tensor& logits, const Tensor& labels, const Tensor& scale, const Tensor& weights,
            double z_factor) {
  record("loss", {logits}, {logits});
  real_loss_gradient(sums, logits, labels, scale, weights, z_factor);
}
HEARTH_WRAP(void, gather, "_ZN6hearth3ops11gather_rowsERKN2at6TensorES4_S4_", const Tensor& out, const Tensor& x,
            const Tensor& index) {
  record("gather", {x}, {out});
  real_gather(out, x, index);
}
HEARTH_WRAP(void, scatter, "_ZN6hearth3ops12scatter_rowsERKN2at6TensorES4_S4_", const Tensor& x, const Tensor& rows,
            const Tensor& index) {
  record("scatter", {rows}, {x});
  real_scatter(x, rows, index);
}
HEARTH_WRAP(void, zero, "_ZN6hearth3ops5zero_ERKN2at6TensorE", const Tensor& dst) {
  record("zero", {}, {dst});
  real_zero(dst);
}

}  // namespace hearth::train
