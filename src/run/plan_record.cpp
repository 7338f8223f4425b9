// SPDX-License-Identifier: Apache-2.0
#include "run/plan_record.h"

#include <nlohmann/json.hpp>

#include "metrics/throughput.h"
#include "plan/memory.h"

namespace hearth::run {

std::string plan_record(const Run& run) {
  using Json = nlohmann::ordered_json;
  Json items = Json::array();
  for (const plan::MemoryItem& item : plan::memory_items(run.memory))
    items.push_back({{"name", item.name}, {"bytes", item.bytes}});
  const double step_s = run.expected_time.step_s;
  const Json json = {{"tokens_per_second", step_s > 0 ? Json(run.expected_time.tokens / step_s) : Json(nullptr)},
                     {"step_s", step_s > 0 ? Json(step_s) : Json(nullptr)},
                     {"memory_bytes", run.memory.total_bytes},
                     {"memory_items", items},
                     {"before_bytes", run.device.is_cpu() ? metrics::resident_memory_bytes() : 0}};
  return json.dump(2) + "\n";
}

}  // namespace hearth::run
