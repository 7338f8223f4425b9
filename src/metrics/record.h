// SPDX-License-Identifier: Apache-2.0
// The measurements of a finished step. One line of RUN/metrics.jsonl, one line on the console.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hearth::metrics {

// How evenly a step's tokens chose a layer's experts. 1 is the mean of the layer.
struct ExpertLoad {
  int64_t layer = 0;
  double least = 0, most = 0;
  int64_t idle = 0;    // experts that no token chose
  double entropy = 0;  // of the router's scores, the mean over tokens, in nats; at most log(experts)
  bool operator==(const ExpertLoad&) const = default;
};

// What a step adds to its loss: each has a key in metrics.jsonl, TensorBoard's loss_metrics/NAME and a chart. A new
// loss is a row here, and train/step.cpp says its value.
struct LossPart {
  const char* name;
  const char* title;
};
inline constexpr LossPart kZLoss{"z_loss", "Loss of large logits"};                    // objective.z_loss
inline constexpr LossPart kMoeAuxLoss{"moe_aux_loss", "Loss that balances experts"};   // model.moe_aux_loss_coeff
inline constexpr LossPart kMoeZLoss{"moe_z_loss", "Loss of large scores of experts"};  // model.moe_z_loss_coeff
inline constexpr LossPart kLossParts[] = {kZLoss, kMoeAuxLoss, kMoeZLoss};
// By name, the parts that have a factor.
using LossParts = std::map<std::string, double>;

struct StepRecord {
  int64_t step = 0;
  // Empty for step 0, which only validates.
  std::optional<double> loss{};       // global token mean, in nats, before the step's update
  LossParts loss_parts{};             // not in `loss`; the gradient is of the sum
  std::optional<double> grad_norm{};  // before clipping
  std::optional<double> lr{};
  int64_t tokens = 0;            // since the start of the training, including this step
  double tokens_per_second = 0;  // of this step
  double mfu = 0;                // share of the rate of matrix products, at most 1 (metrics/peak_rate.h)
  uint64_t first_sample = 0;     // this step's first, counted over the whole training: `hearth data sample --at`
  int64_t samples = 0;           // number of samples in this step; 0: validation only, or an older Hearth wrote it
  std::string skipped{};         // why the update was skipped: "no_labels", "nan" or "spike"; empty: applied
  int64_t substituted = 0;       // sequences of this step that replaced damaged ones
  std::vector<ExpertLoad> expert_loads{};   // of the layers with experts
  double data_wait_s = 0;                   // time that the training waited for the step's batch
  double step_s = 0;                        // the whole step, without validation and saving
  double time = 0;                          // end of the step, in seconds since 1970; 0: an older Hearth wrote it
  int64_t memory_bytes = 0;                 // largest resident set of the process so far
  std::optional<double> validation_loss{};  // global token mean over the held-out text, after the step's update
  std::map<std::string, double> validation_losses{};  // by name, for each named validation set

  // The part of a step's time that waited for data. At most 1: a wait before the first step is no part of its time.
  double data_wait_share() const { return step_s > 0 ? std::min(1.0, data_wait_s / step_s) : 0; }
  bool operator==(const StepRecord&) const = default;
};

// Counts of spikes: time bins, each with the same number of neurons.
using CountBins = std::vector<std::vector<uint8_t>>;

// The continuation of a recording.
struct SampleBins {
  CountBins made{};    // bins that the model made; empty: a text
  CountBins before{};  // the last bins that the model read
  CountBins real{};    // the recording after `before`, at most as many bins as `made`
  bool operator==(const SampleBins&) const = default;
};

// A text, or the continuation of a recording, that the model made after a validation from a prompt of
// validation.generate.
struct SampleText {
  int64_t step = 0;
  std::string prompt{};
  std::string text{};  // after the prompt; the whole text if the model fills in masks
  int64_t tokens = 0;  // number of tokens that the model chose
  bool ended = false;  // with EOS
  uint64_t seed = 0;   // `hearth generate` makes the text again with it
  double time = 0;     // in seconds since 1970
  SampleBins bins{};   // in place of the text if the data are recordings
  bool operator==(const SampleText&) const = default;
};

}  // namespace hearth::metrics
