// SPDX-License-Identifier: Apache-2.0
#include "config/derived.h"

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "hub/name.h"
#include "machine/cores.h"

namespace hearth::config {

int64_t global_batch_size(const RunConfig& config) {
  const Training& t = config.training;
  return t.global_batch_size > 0 ? t.global_batch_size : t.local_batch_size * config.parallelism.data_ranks();
}

int64_t micro_batch_size(const RunConfig& config) {
  const Parallelism& p = config.parallelism;
  return p.pipeline_parallel_degree > 1 ? p.pipeline_parallel_microbatch_size : config.training.local_batch_size;
}

int64_t accumulation_steps(const RunConfig& config) {
  return global_batch_size(config) / (micro_batch_size(config) * config.parallelism.data_ranks());
}

int64_t tokens_per_step(const RunConfig& config) { return global_batch_size(config) * config.training.seq_len; }

int64_t cpu_threads(const RunConfig& config) {
  return config.training.threads > 0 ? config.training.threads : machine::available_cores();
}

int64_t total_steps(const RunConfig& config, int64_t samples_per_epoch) {
  const Training& t = config.training;
  if (t.steps > 0) return t.steps;
  if (t.tokens > 0) return div_ceil(t.tokens, tokens_per_step(config));
  const double steps =
      t.epochs * static_cast<double>(samples_per_epoch) / static_cast<double>(global_batch_size(config));
  // 1.1 epochs of 100 samples are 11 steps of ten, although 1.1 * 100 > 110 in floating point.
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(steps - 1e-9 * steps)), 1);
}

double epoch_parts(const RunConfig& config, int64_t samples_per_epoch, uint64_t samples) {
  if (config.checkpoint.interval_epochs <= 0) return 0;
  const double part = std::max(config.checkpoint.interval_epochs * static_cast<double>(samples_per_epoch), 1.0);
  const double parts = static_cast<double>(samples) / part;
  return std::floor(parts + 1e-9 * parts);  // 1.1 epochs of 100 samples are 110, as in total_steps
}

Path RunConfig::initial_load_path() const {
  const std::string& given = checkpoint.initial_load_path;
  return hub::is_name(given) ? hub::folder_of(hub::parse_name(given)) : join_path(base_folder, given);
}

int64_t window_of_layer(const Model& model, int64_t layer) {
  const int64_t interval = model.full_attention_interval;
  const std::vector<std::string>& types = model.layer_types;
  const int64_t first = model.first_full_attention_layer < 0 ? interval - 1 : model.first_full_attention_layer;
  // A list that is too short is an error, which comes later.
  const bool is_full = types.empty()
                           ? interval > 0 && layer % interval == first
                           : layer >= std::ssize(types) || types[static_cast<size_t>(layer)] == kFullAttention;
  return is_full ? 0 : model.sliding_window;
}

int64_t count_windowed_layers(const Model& model) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < model.n_layers; ++layer) count += window_of_layer(model, layer) > 0 ? 1 : 0;
  return count;
}

int64_t head_width(const Model& model) {
  if (model.has_latents()) return model.qk_nope_head_dim + model.qk_rope_head_dim;
  return model.head_dim > 0 ? model.head_dim : model.dim / model.n_heads;
}

int64_t rotary_width(double partial_rotary_factor, int64_t head_width) {
  return static_cast<int64_t>(static_cast<double>(head_width) * partial_rotary_factor);
}

int64_t rotary_width(const Model& model) {
  return model.has_latents() ? model.qk_rope_head_dim : rotary_width(model.partial_rotary_factor, head_width(model));
}

bool is_branch(const RunConfig& config) {
  return !config.checkpoint.initial_load_path.empty() && !config.checkpoint.initial_load_model_only;
}

bool leaves_behind(const RunConfig& config, std::string_view what) {
  const auto& names = config.checkpoint.exclude_from_loading;
  return std::find(names.begin(), names.end(), what) != names.end();
}

}  // namespace hearth::config
