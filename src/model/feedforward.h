// SwiGLU: branch = w2 (silu(w1 y) * w3 y), y the normed stream. Source: arXiv 2002.05202.
#pragma once

#include "model/activations.h"
#include "model/unit_views.h"

namespace hearth::model {

// kFeedForwardInput -> kBranch; keeps kGateUp, kGated.
void feedforward_forward(const Activations& a, const BlockViews& weights, int64_t layer);

// Gradient of kBranch (= kStreamGradient) -> kInputGradient, the gradient of kFeedForwardInput. Adds to `gradients`.
// Overwrites kGateUp. If the layer recomputes anything, kGated is recomputed, not read.
//
// If gradients are computed in halves, it adds nothing to `gradients`, and keeps kFeedForwardBranchGradient and kGated
// for feedforward_weight_gradients().
void feedforward_backward(const Activations& a, const BlockViews& weights, BlockViews& gradients, int64_t layer);
void feedforward_weight_gradients(const Activations& a, BlockViews& gradients, int64_t layer);

}  // namespace hearth::model
