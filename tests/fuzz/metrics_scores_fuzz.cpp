// SPDX-License-Identifier: Apache-2.0
// RUN/scores.jsonl as `hearth score` and `hearth report` read it.
#include "metrics/scores.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("scores.jsonl", input), copy = scratch() / "copy.jsonl";
  accepted([&] {
    const std::vector<metrics::Score> scores = metrics::read_scores(path);
    for (size_t i = 1; i < scores.size(); ++i) {
      const metrics::Score &a = scores[i - 1], &b = scores[i];
      require(a.step < b.step || (a.step == b.step && a.name < b.name), "a step and name stand twice");
    }
    remove_file(copy);
    metrics::append_scores(copy, scores);
    require(metrics::read_scores(copy) == scores, "scores are not read back");
  });
}

std::vector<std::string> seeds() {
  const Path path = scratch() / "seed.jsonl";
  metrics::append_scores(path, {{4, "validation_loss", 0.1, "0123"}, {8, "a task.acc", 1e300, ""}});
  return {read_file(path)};
}

}  // namespace hearth::fuzz
