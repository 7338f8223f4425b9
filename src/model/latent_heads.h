// SPDX-License-Identifier: Apache-2.0
// The heads of latent attention (models/mla_ops.h). All calls are Local.
#pragma once

#include "model/activations.h"
#include "models/ops.h"

namespace hearth::model {

void expand_latents(const Activations& a, const models::ExpandLatents& op);
void expand_latents_gradient(const Activations& a, const models::ExpandLatentsGradient& op);
void drop_zeros(const Activations& a, const models::DropZeros& op);
void add_zeros(const Activations& a, const models::AddZeros& op);

}  // namespace hearth::model
