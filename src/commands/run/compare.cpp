// SPDX-License-Identifier: Apache-2.0
// `hearth compare`: where two trainings differ.
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "commands/commands.h"
#include "report/run_difference.h"
#include "report/run_facts.h"

namespace hearth::commands {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<report::TextDifference>& differences) {
  Json list = Json::array();
  for (const report::TextDifference& d : differences)
    list.push_back({{"name", d.name}, {"first", d.first}, {"second", d.second}});
  return list;
}

Json json_of(const report::RunDifference& d) {
  Json numbers = Json::array();
  for (const report::NumberDifference& n : d.numbers) {
    Json number{{"name", n.name}, {"steps", n.steps}, {"first_step", nullptr}};
    if (n.first_step > 0)
      number.update({{"first_step", n.first_step},
                     {"first", n.first},
                     {"second", n.second},
                     {"largest_difference", n.largest},
                     {"largest_step", n.largest_step}});
    numbers.push_back(std::move(number));
  }
  return {{"configuration", json_of(d.configuration)},
          {"newest_checkpoint", json_of(d.origin)},
          {"common_steps", d.common_steps},
          {"numbers", numbers}};
}

}  // namespace

int compare(CommandLine& line) {
  Path first, second;
  bool json = false;
  line.positional("RUN", &first, "a run folder, or its metrics.jsonl");
  line.positional("OTHER", &second, "another one");
  line.flag(
      "--json", &json,
      "print one JSON object: configuration and newest_checkpoint (lists of name, first, second), common_steps and "
      "numbers (name, steps, first_step: null where all are equal, first, second, largest_difference, largest_step)");
  if (!line.parse()) return 0;
  const auto read = [](const Path& run) {
    return report::page_run(run.string(), std::filesystem::absolute(report::metrics_file_of(run)).lexically_normal());
  };
  const report::PageRun a = read(first), b = read(second);
  for (const report::PageRun* run : {&a, &b})
    for (const std::string& note : run->notes) log_info("note: {}: {}", run->name, note);
  const report::RunDifference found = report::difference(a, b);
  if (json)
    fmt::print("{}\n", json_of(found).dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
  else
    fmt::print("{}", report::format_difference(found, a.name, b.name));
  return 0;
}

}  // namespace hearth::commands
