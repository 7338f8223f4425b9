// SPDX-License-Identifier: Apache-2.0
// RUN/lease, as its readers see it: which start of a training has the run folder. runfolder/lease.h writes it.
//   start = 3
//   id = 5f1c2a7be01d9e44
//   host = node2
//   process = 4711
//   time = 2026-01-31 23:59:59 UTC
//   job = 12                 of a scheduler, or of `hearth submit`; left out where there is none
//   requeues = 1             how often Slurm has put that job back into the queue; left out for 0
//   submitted = yes          the job is one of `hearth submit`; else left out
//   beat = 000000000042      counts up every two seconds, in place, while the training lives; "ended" after its end
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "runfolder/names.h"

namespace hearth::runfolder {

inline constexpr double kBeat_s = 2;  // between two beats

struct LeaseHolder {
  int64_t start = 0, process = 0, requeues = 0, beat = 0;
  std::string id{}, host{}, job{}, time{};
  bool submitted = false;
  bool ended = false;  // the training ended by itself: it was not killed

  std::string place() const;  // "process 4711 on node2", and ", job 12"
  // Whether the process is on this host and still trains. False for a process of another host, which cannot be seen
  // from here.
  bool runs_here() const;
};

// nullopt: there is no lease, or it is damaged. Throws an Error if the file cannot be read.
std::optional<LeaseHolder> read_lease(const Path& run);

// Seconds since the lease's last beat: this host's clock minus the file's time. 0 if there is no lease, or if the
// clocks differ so that this is negative.
double seconds_since_beat(const Path& run);

}  // namespace hearth::runfolder
