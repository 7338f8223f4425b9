// SPDX-License-Identifier: Apache-2.0
// What `hearth preflight` measures on each rank, and the judgement which nodes are faulty. Pure functions:
// bench/preflight.h makes the measurements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu_health.h"

namespace hearth::bench {

// One rank's measurements. A node's first rank makes the measurements of the node; the other ranks have the defaults
// there.
struct RankFacts {
  int64_t rank = 0;
  std::string host;
  bool first_of_host = false;
  std::string versions;                        // "Hearth 0.1.0, LibTorch 2.11.0, Linux 6.1.0"
  std::string device;                          // "AMD Instinct MI250X", "CPU, 8 cores"
  int64_t memory_bytes = 0;                    // of the device, free at the start
  double gemm_flops = 0;                       // FLOP/s, while all ranks multiply
  double clock_s = 0;                          // the time of day, read by all ranks at once
  std::string file_error;                      // of a node; empty: a written file was read back correctly
  double write_bytes_s = 0, read_bytes_s = 0;  // of a node
  int64_t memory_errors = -1;                  // of a node: uncorrected, since its start; -1: the system does not say
  GpuHealth gpus{};                            // of a node; not known without GPUs
  // Known after the first exchange of tensors.
  bool plugin_loaded = false;   // limits.fabric_library is mapped
  double received_bytes_s = 0;  // of an all_gather over all ranks
};

// The facts as one message between ranks, and back.
std::string facts_text(const RankFacts& facts);
RankFacts facts_of_text(std::string_view text);

// The figures of a cluster file that facts are compared with.
struct NodeLimits {
  double least_share = 0.9;    // a rank with less than this share of the median, or of a figure, is off
  double gemm_flops = 0;       // 0: ranks are compared with each other only
  std::string fabric_library;  // empty: not checked
  double fabric_bytes_s = 0;   // 0: not checked
};

struct CheckRow {
  enum class Outcome { kFine, kOff, kNotChecked };
  std::string name;
  Outcome outcome = Outcome::kFine;
  std::string text;
  std::vector<std::string> bad_nodes{};  // with kOff: host names, each once
};

// The rows about each node alone. `facts`: in the order of ranks, at least one.
std::vector<CheckRow> judge_nodes(std::span<const RankFacts> facts, const NodeLimits& limits);
// The rows about the nodes' communication.
std::vector<CheckRow> judge_fabric(std::span<const RankFacts> facts, const NodeLimits& limits);

// "devices        fine         8 x ...", a line.
std::string row_text(const CheckRow& row);
std::string_view name_of(CheckRow::Outcome outcome);  // "fine", "OFF", "not checked"
// The nodes of all rows, each once, in the order of their names.
std::vector<std::string> bad_nodes(std::span<const CheckRow> rows);

}  // namespace hearth::bench
