// SPDX-License-Identifier: Apache-2.0
// Values computed from a configuration.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/config.h"

namespace hearth::config {

int64_t global_batch_size(const RunConfig& config);   // sequences per step, over all ranks
int64_t micro_batch_size(const RunConfig& config);    // sequences that go through a layer at once
int64_t accumulation_steps(const RunConfig& config);  // micro-batches per rank and step
int64_t tokens_per_step(const RunConfig& config);     // positions, over all ranks
int64_t cpu_threads(const RunConfig& config);         // training.threads, or all cores that the process may use

// Length of the training in steps: tokens and epochs are rounded up to whole steps. `samples_per_epoch` is the number
// of windows in the data; only a length in epochs needs it.
int64_t total_steps(const RunConfig& config, int64_t samples_per_epoch);

// How many whole intervals of checkpoint.interval_epochs the first `samples` samples of a training complete. 0 without
// the key. An epoch has `samples_per_epoch` samples, as for total_steps.
double epoch_parts(const RunConfig& config, int64_t samples_per_epoch, uint64_t samples);

// The tokens that a position of this layer sees, itself included: model.sliding_window, or 0 for all.
int64_t window_of_layer(const Model& model, int64_t layer);
int64_t count_windowed_layers(const Model& model);
// Elements of a query and of a key.
int64_t head_width(const Model& model);
// The number of a head's elements that rotate: model.partial_rotary_factor of the width, rounded down.
int64_t rotary_width(double partial_rotary_factor, int64_t head_width);
int64_t rotary_width(const Model& model);  // with latent attention it is a key

// Whether a run without checkpoints of its own continues another run, rather than load only its weights.
bool is_branch(const RunConfig& config);
// Whether a branch leaves out `what`, by checkpoint.exclude_from_loading: "optimizer", "dataloader", "train_state".
bool leaves_behind(const RunConfig& config, std::string_view what);

}  // namespace hearth::config
