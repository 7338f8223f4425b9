// SPDX-License-Identifier: Apache-2.0
#include "model/latent_heads.h"

#include "ops/tensor.h"

namespace hearth::model {
namespace {

// Rows of heads, [T, heads, width].
at::Tensor by_heads(const at::Tensor& rows, int64_t width) { return rows.unflatten(1, {-1, width}); }

// The parts of keys and values, and of what they are made of.
struct Parts {
  at::Tensor kept_key, rotated_key, value, zeros;  // [T, H, N], [T, H, R], [T, H, V], [T, H, K - V]
  at::Tensor expanded_key, expanded_value;         // [T, H, N], [T, H, V]

  Parts(const plan::ModelShape& s, const at::Tensor& keys_values, const at::Tensor& expanded) {
    const int64_t N = s.qk_nope_head_dim, R = s.qk_rope_head_dim, V = s.v_head_dim;
    const at::Tensor both = by_heads(keys_values, s.K), heads = by_heads(expanded, N + V);
    const at::Tensor keys = both.narrow(1, 0, s.H), values = both.narrow(1, s.H, s.H);
    kept_key = keys.narrow(2, 0, N), rotated_key = keys.narrow(2, N, R);
    value = values.narrow(2, 0, V), zeros = values.narrow(2, V, s.K - V);
    expanded_key = heads.narrow(2, 0, N), expanded_value = heads.narrow(2, N, V);
  }
};

}  // namespace

void expand_latents(const Activations& a, const models::ExpandLatents& op) {
  const Parts parts(a.shape(), a(op.keys_values), a(op.heads));
  ops::copy_(parts.kept_key, parts.expanded_key);
  ops::copy_(parts.rotated_key, a(op.shared).unsqueeze(1).expand(parts.rotated_key.sizes()));
  ops::copy_(parts.value, parts.expanded_value);
  ops::zero_(parts.zeros);
}

void expand_latents_gradient(const Activations& a, const models::ExpandLatentsGradient& op) {
  const Parts parts(a.shape(), a(op.dkeys_values), a(op.dheads));
  ops::copy_(parts.expanded_key, parts.kept_key);
  ops::copy_(parts.expanded_value, parts.value);
  // [T, 1, 1, R] and [T, 1, H, R]
  ops::sum_copies(a(op.dshared).unsqueeze(1).unsqueeze(1), parts.rotated_key.unsqueeze(1));
}

void drop_zeros(const Activations& a, const models::DropZeros& op) {
  const plan::ModelShape& s = a.shape();
  ops::copy_(by_heads(a(op.to), s.v_head_dim), by_heads(a(op.from), s.K).narrow(2, 0, s.v_head_dim));
}

void add_zeros(const Activations& a, const models::AddZeros& op) {
  const plan::ModelShape& s = a.shape();
  const at::Tensor heads = by_heads(a(op.to), s.K);
  ops::copy_(heads.narrow(2, 0, s.v_head_dim), by_heads(a(op.from), s.v_head_dim));
  ops::zero_(heads.narrow(2, s.v_head_dim, s.K - s.v_head_dim));
}

}  // namespace hearth::model
