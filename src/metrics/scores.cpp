// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "metrics/jsonl.h"

namespace hearth::metrics {

std::vector<Score> read_scores(const Path& path) {
  if (!path_exists(path)) return {};
  std::map<std::pair<int64_t, std::string>, Score> found;
  for_each_whole_line(read_file(path), [&](std::string_view line, int64_t number) {
    try {
      const auto json = nlohmann::json::parse(line);
      Score score{json.at("step").get_ref<const int64_t&>(), json.at("name").get<std::string>(),
                  json.at("value").get<double>(), json.at("of").get<std::string>()};
      found[{score.step, score.name}] = std::move(score);
    } catch (const nlohmann::json::exception& e) {
      throw damaged(fmt::format("{}:{} is not a score", path.string(), number), e.what(), "remove that line");
    }
  });
  std::vector<Score> scores;
  for (auto& [key, score] : found) scores.push_back(std::move(score));
  return scores;
}

void append_scores(const Path& path, const std::vector<Score>& scores) {
  std::string lines;
  for (const Score& score : scores) {
    HEARTH_CHECK(std::isfinite(score.value), "{} is {}", score.name, score.value);
    lines += fmt::format("{{\"step\": {}, \"name\": {}, \"value\": {}, \"of\": {}}}\n", score.step, quoted(score.name),
                         score.value, quoted(score.of));
  }
  File file = open_lines(path);
  file.write(lines);
  file.sync();
}

}  // namespace hearth::metrics
