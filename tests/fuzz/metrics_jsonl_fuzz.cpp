// SPDX-License-Identifier: Apache-2.0
// RUN/metrics.jsonl as the plotting and resuming code reads it.
#include "metrics/jsonl.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("metrics.jsonl", input);
  metrics::read_history(path);  // takes anything
  accepted([&] {
    int64_t last = -1;
    for (const metrics::StepRecord& record : metrics::read_metrics(path)) {
      require(record.step > last, "steps do not ascend");
      last = record.step;
    }
    last = -1;
    for (const metrics::Event& event : metrics::read_events(path)) {
      require(event.step >= last, "events go back");
      last = event.step;
    }
  });
}

std::vector<std::string> seeds() {
  const Path path = scratch() / "seed.jsonl";
  {
    metrics::JsonlWriter writer(path);
    for (int64_t step = 0; step < 4; ++step) {
      metrics::StepRecord record;
      record.step = step;
      if (step > 0) record.loss = 0.1 * static_cast<double>(step);
      if (step == 3) record.validation_loss = 1e300;
      writer.append(record);
    }
    writer.append(metrics::Event{.name = "resume", .step = 2, .next_sample = 8});
    writer.append(metrics::Event{.name = "rewind", .step = 1, .next_sample = 12, .from_step = 3, .reason = "a spike"});
  }
  metrics::JsonlWriter(path).append(
      metrics::SampleText{.step = 2, .prompt = "\"\n", .text = "\xE2\x82", .tokens = 2, .ended = true, .seed = 7});
  metrics::JsonlWriter(path).append(
      metrics::SampleText{.step = 3, .prompt = "a.npy", .bins = {.made = {{0, 9}}, .before = {{1, 0}}, .real = {}}});
  return {read_file(path)};
}

}  // namespace hearth::fuzz
