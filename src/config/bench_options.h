// Options of the `hearth bench` commands that need LibTorch, as plain values. commands/ parses them and bench/ obeys
// them. Neither folder includes the other, so the struct is here.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace hearth::config {

struct BenchStepOptions {
  RunConfig config;    // of the run file or the defaults, with the shape options applied
  int64_t steps = 10;  // timed steps; for bench ops: calls of each kernel
  int64_t warmup = 3;  // steps before them, not timed
  bool json = false;   // one JSON object instead of lines for people
  // Waits for a line on stdin before each step and prints one after it: for runs in alternation with other programs.
  bool turns = false;
};

struct BenchGemmOptions {
  std::string device = "cpu";     // or "cuda"
  std::string dtype = "float32";  // or "bfloat16", "float64"
  int64_t threads = 0;            // CPU threads; 0: all that the process may use
  bool json = false;              // one JSON object
};

struct BenchCommOptions {
  int64_t ranks = 0;  // processes to start on this host; 0: those of the launcher, or two
  int64_t mib = 32;   // size of the tensor on each rank
  int64_t repeats = 20;
  std::string backend = "auto";  // comm.backend
  std::string library;           // comm.nccl_library
  std::string device = "cpu";    // of the tensors
  bool json = false;             // one JSON object
};

struct BenchRanksOptions {
  int64_t ranks = 5120;
  int64_t repeats = 50;  // steps
  bool json = false;     // one JSON object
};

}  // namespace hearth::config
