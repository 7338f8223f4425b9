// SPDX-License-Identifier: Apache-2.0
// What expert-parallel ranks send each other (models/moe/experts.h): the numbers of rows, and rows to the ranks that
// have their experts and back. Rows of one expert arrive in the order of ranks, so an expert sees its tokens in the
// order in which one rank with all of them would have them. All calls are Collective over the ranks that have different
// experts.
#pragma once

#include "model/activations.h"
#include "models/moe_ops.h"

namespace hearth::model {

// Begins the exchange of numbers of rows. Does not wait for a GPU.
void send_counts(const Activations& a, const models::SendCounts& op);
// Ends it: decides how many rows this layer's buffers have until its next forward. Waits for the other ranks, and on a
// GPU for what was enqueued up to send_counts.
void share_counts(const Activations& a, const models::ShareCounts& op);

void send_rows(const Activations& a, const models::SendRows& op);
void return_rows(const Activations& a, const models::ReturnRows& op);

}  // namespace hearth::model
