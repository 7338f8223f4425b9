// SPDX-License-Identifier: Apache-2.0
// A trace as `hearth inspect trace` reads it.
#include "report/trace.h"

#include "metrics/trace_file.h"
#include "report/trace_costs.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("trace.json", input);
  accepted([&] {
    const report::TraceCosts costs = report::trace_costs(report::read_trace(path));
    const double slack_us = 1e-6 * (1 + costs.communication_us);
    require(costs.computation_us >= 0 && costs.data_wait_us >= 0, "a negative time");
    require(costs.exposed_us >= -slack_us && costs.exposed_us <= costs.communication_us + slack_us,
            "more is exposed than there is");
    report::format_trace_costs({costs}, 10);
    report::trace_costs_json({costs});
  });
}

std::vector<std::string> seeds() {
  trace::SpanRecorder::Window window;
  window.threads = {"training", "communication"};
  window.spans = {
      {.kind = trace::SpanKind::kStep, .begin_ns = 0, .end_ns = 90'000, .name = "step", .number = 3},
      {.kind = trace::SpanKind::kOp, .begin_ns = 1'000, .end_ns = 50'000, .name = "matmul"},
      {.kind = trace::SpanKind::kCollective,
       .thread = 1,
       .begin_ns = 2'000,
       .end_ns = 80'000,
       .name = "all_reduce",
       .bytes = 64},
  };
  const std::string ours = metrics::trace_json(window, {0, 2, 3, 3});
  metrics::write_gzip(scratch() / "seed.json.gz", ours);
  return {
      ours, read_file(scratch() / "seed.json.gz"),
      R"([{"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": "stream 7", "ts": 1.5, "dur": 2}])"};
}

}  // namespace hearth::fuzz
