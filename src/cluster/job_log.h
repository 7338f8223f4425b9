// SPDX-License-Identifier: Apache-2.0
// What the log of a job, RUN/logs/job-ID.log, says about its starts. The ranks and the job's script write it. Slurm may
// start a job again while a host that was cut off still computes: both starts write into one log then, the older one
// even after the newer one's first lines. So each error names its start (base/log.h).
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::cluster {

// What errors of the job's script, and of the programs that it asks, name in place of a start.
inline constexpr std::string_view kScriptSpeaker = "the job's script";

// The newest part of a job's log, at most a mebibyte; empty without a log.
std::string read_job_log(const Path& run, const std::string& job);

// The first error of the start "2.1", "WHAT: WHY"; empty: no error. An empty `start` stands for errors without a name,
// of which those since the script's newest line count.
std::string error_of_start(std::string_view log, std::string_view start);

// The first error since the script's newest line, whoever wrote it; empty: no error.
std::string newest_error(std::string_view log);

// Why a node is off, in the newest words of the look at the nodes; empty: not known.
std::string fault_of_node(std::string_view log, std::string_view node);

}  // namespace hearth::cluster
