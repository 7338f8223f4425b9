// What the commands of `hearth bench` that need LibTorch take: plain values. commands/ parses them and bench/ obeys
// them; neither room includes the other, so the struct that both know stands to the left of both.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace hearth::config {

struct BenchStepOptions {
  RunConfig config;    // of the run file, or the defaults, with the shape options applied
  int64_t steps = 10;  // timed; of bench ops: calls of each kernel
  int64_t warmup = 3;  // not timed
  bool json = false;   // one JSON object instead of lines for people
  // Waits for a line on stdin before each step and prints one after it: to take turns with other programs.
  bool turns = false;
};

struct BenchGemmOptions {
  std::string device = "cpu";     // or "cuda"
  std::string dtype = "float32";  // or "bfloat16", "float64"
  int64_t threads = 0;            // CPU threads; 0: all the process may use
  bool json = false;              // one JSON object
};

}  // namespace hearth::config
