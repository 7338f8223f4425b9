// Which start of a training may write in its run folder: the newest. RUN/run.lock keeps a second training out while the
// first one runs. But a lock does not reach over every network file system, and a host that was cut off may come back
// after its training was started again elsewhere. So each start writes a number one higher to RUN/lease, and the
// training that finds another number there than its own must not write any more.
//
// What this guarantees: a checkpoint gets its final name only if its start had the lease directly before that rename.
// Temporary folders have the start's number in their names, so two starts never write the same files. What it does not:
// between the look and the rename another start may take the lease. The late checkpoint is then a whole and good one of
// the older start. The new start takes it or leaves it, as with any checkpoint that it finds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/file.h"

namespace hearth::run {

class Lease {
 public:
  // Takes the lease of a run folder for this process. Damage of the file is a reason to take it, too: its number is
  // then 1.
  static Lease take(const Path& run);

  // The number of the start that has the lease of a run folder; 0: no start has it.
  static int64_t newest(const Path& run);

  int64_t number() const { return number_; }
  bool is_held() const;  // no newer start has it
  // Throws an Error (kHardware) that names the other start if the lease is not this one's any more.
  void check() const;

 private:
  Lease(Path file, int64_t number, std::string id) : file_(std::move(file)), number_(number), id_(std::move(id)) {}

  Path file_;
  int64_t number_;
  std::string id_;  // random: of two starts at the same moment, the last one has the lease
};

}  // namespace hearth::run
