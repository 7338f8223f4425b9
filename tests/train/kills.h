// SPDX-License-Identifier: Apache-2.0
// SIGKILL at random moments, again and again until the run is done; shared by the fast and the slow test.
#pragma once

#include <functional>

#include "base/random.h"
#include "run_process.h"

namespace hearth::train {

// Trains `config` to its end and kills it `kills` times: half of them at a random disk call (mostly inside a save),
// half a random time after the log of a random step (mostly inside a step). `after` gets what each killed process has
// printed. Returns the number of kills that hit.
inline int64_t train_with_kills(const config::RunConfig& config, int64_t kills, uint64_t seed,
                                const std::function<void(const std::string& printed)>& after = {}) {
  const Path toml = write_run_file(config), log = config.base_folder / (config.job.dump_folder + ".log");
  const RandomKey key = random_key(seed, "kills");
  uint64_t index = 0;
  const auto random = [&](uint64_t below) { return random_u64(key, index++) % below; };
  int64_t hits = 0;
  while (hits < kills) {
    const bool by_disk_call = random(2) == 0;
    const size_t before = path_exists(log) ? read_file(log).size() : 0;
    RunProcess process({"train", toml.string()}, log,
                       by_disk_call ? fmt::format("{}:KILL", 1 + random(40)) : std::string());
    if (!by_disk_call) {
      const int64_t at_step = std::max<int64_t>(steps_logged(config), 0) + static_cast<int64_t>(random(4));
      const auto delay = std::chrono::microseconds(random(4000));
      wait_until(process, [&] { return steps_logged(config) >= at_step; });
      std::this_thread::sleep_for(delay);
      process.signal(SIGKILL);
    }
    const int code = process.wait();
    if (code == 128 + SIGKILL) {
      ++hits;
      if (after) after(read_file(log).substr(before));
    } else if (code == 0) {
      break;  // the run is done
    } else {
      ADD_FAILURE() << "exit code " << code << "\n" << read_file(log);
      break;
    }
  }
  RunProcess last({"train", toml.string()}, log);
  EXPECT_EQ(last.wait(), 0) << read_file(log);
  return hits;
}

}  // namespace hearth::train
