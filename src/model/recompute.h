// Recomputes in backward the values that a layer's forward did not keep (plan::Recompute). The ops and their inputs are
// the same, so the bits are, too. Each call is for the half of the block whose backward comes next.
#pragma once

#include "model/activations.h"
#include "model/unit_views.h"
#include "ops/attention.h"

namespace hearth::model {

// For feedforward_backward and the norm before it: kMiddle, kFeedForwardInput and its statistics, kGateUp.
void recompute_for_feedforward(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask,
                               int64_t layer);

// For attention_backward and the norm before it: kAttentionInput and its statistics, kQkv, kAttention, kLogSumExp.
void recompute_for_attention(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask,
                             int64_t layer);

}  // namespace hearth::model
