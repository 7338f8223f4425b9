// SPDX-License-Identifier: Apache-2.0
// What ranks send each other, from the records of their calls, next to the plan's bytes.
#include <gtest/gtest.h>

#include "config/derived.h"
#include "config/families.h"
#include "data/order/data_facts.h"
#include "plan/run_shape.h"
#include "plan/traffic.h"
#include "run_process.h"
#include "trace/flight.h"

namespace hearth::train {
namespace {

struct SentBytes : TinyData {
  Path log = scratch / "log";
};

// The calls of a step that ranks make, from their records, next to the plan. A gather's and a reduction's bytes are
// those of the whole buffer, of which each of two ranks sends a half; an all-reduce's are sent whole.
TEST_F(SentBytes, InsideLayersAreThoseOfThePlan) {
  for (const char* family : {"llama", "olmo2", "qwen3_moe"}) {
    for (const config::RecomputeChoice level : {config::RecomputeChoice::kNone, config::RecomputeChoice::kBlock}) {
      config::RunConfig c = tiny_config(scratch);
      c.job.dump_folder = fmt::format("{}-{}", family, config::name_of(level));
      c.training.threads = c.parallelism.tensor_parallel_degree = 2;
      c.training.steps = 2;
      c.lr_scheduler.warmup_steps = 0;
      c.memory.recompute = level;
      config::apply(config::find_family(family), c.model);
      if (c.model.route_norm) c.model.num_experts = 5;
      RunProcess process({"train", write_run_file(c).string()}, log);
      ASSERT_EQ(process.wait(), 0) << read_file(log);
      const trace::Flight flight = trace::read_flight(trace::flight_file(c.run_folder() / "flight", 0));
      // The stream's rows [T, D]; and a norm of all heads' sums, two numbers a token. Other calls are small.
      const int64_t T = config::micro_batch_size(c) * c.training.seq_len, rows = T * c.model.dim * 4, sums = 2 * T * 4;
      double sent = 0;
      for (const trace::FlightCall& call : flight.calls) {
        if (call.step != 1 || flight.groups[static_cast<size_t>(call.group)].count < 2) continue;
        const std::string_view name = call.name;
        if ((name == "all_gather" || name == "reduce_scatter") && call.bytes == rows)
          sent += static_cast<double>(rows) / 2;
        if (name == "all_reduce" && call.bytes == sums) sent += static_cast<double>(sums);
      }
      const plan::RunShape run = plan::run_shape(c, data::data_facts(c));
      const bool again = level == config::RecomputeChoice::kBlock;
      const std::vector<plan::Recompute> levels(static_cast<size_t>(run.model.L()),
                                                again ? plan::Recompute::kBlock : plan::Recompute::kNone);
      EXPECT_GT(sent, 0);
      EXPECT_EQ(sent, plan::run_traffic(c, run.model, run.precision, levels).tensor) << family << " " << again;
    }
  }
}

}  // namespace
}  // namespace hearth::train
