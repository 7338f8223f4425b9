// What is known about a step once it is done. One line of RUN/metrics.jsonl, one line on the console.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hearth::metrics {

struct Record {
  int64_t step = 0;
  // Empty for step 0, which only validates.
  std::optional<double> loss{};       // global token mean, in nats, before the step's update
  std::optional<double> z_loss{};     // what objective.z_loss adds to it; empty without that
  std::optional<double> grad_norm{};  // before clipping
  std::optional<double> lr{};
  int64_t tokens = 0;            // seen since the start of the training, this step included
  double tokens_per_second = 0;  // of this step
  double mfu = 0;                // share of the peak rate; on a CPU of the GEMM rate measured at start
  uint64_t first_sample = 0;     // of this step's, counted over the whole training: `hearth data sample --at`
  int64_t samples = 0;           // of this step; 0: it only validates, or an older Hearth wrote it
  std::string skipped{};         // why its update was left out: "no_labels", "nan" or "spike"; empty: it was applied
  int64_t substituted = 0;       // sequences of this step that stand in for damaged ones
  double data_wait_s = 0;        // time the step stood still for want of a batch
  double step_s = 0;             // the whole step, data_wait_s included; validation and saving are not
  int64_t memory_bytes = 0;      // largest resident set of the process so far
  std::optional<double> validation_loss{};  // global token mean over the held-out text, after this step's update
  std::map<std::string, double> validation_losses{};  // of each named set of it, by name
  bool operator==(const Record&) const = default;
};

}  // namespace hearth::metrics
