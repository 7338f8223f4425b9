// SPDX-License-Identifier: Apache-2.0
// How a start gets a run folder for itself, and keeps it.
//
// RUN/run.lock is locked during a training. A start that finds it locked does one of these:
//   - It is of a job that was started again (runfolder/lease.h: JobOfStart::replaces). The older start computes on, on
//   a host
//     that was cut off, or its host is dead and the file system has not noticed. The new one takes the lease, waits for
//     the lock until the older one has seen that and ends, and goes on without the lock if that takes too long: the
//     older one cannot write a checkpoint any more.
//   - Else, if the other training lives, it is refused: two people or two terminals use one folder. A process of this
//     host is seen, one of another host by its beats.
//   - Else it waits for the lock: the kernel of a dead host does not release it, only the file system after a while.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "runfolder/lease.h"

namespace hearth::runfolder {

struct LockTimes {
  double older_start_s = 30;  // for an older start of this job to end
  double dead_host_s = 240;   // for the file system to release a dead host's lock: NFSv4 takes 90 s, and as much again
  double beat_s = kBeat_s;
  double end_s = 20;             // for a training that was replaced to end by itself
  double trust_s = 2 * kBeat_s;  // an older look at the lease no longer says who has it
};

// Holds a run folder. A thread shows every two seconds that this start lives (the lease's beat), looks whether a newer
// one has the lease, and takes the lock when an older start leaves it. A training that was replaced and does not end by
// itself, because it waits for ranks that are not there, is ended with exit code 4.
class RunLock {
 public:
  // Takes the lock and the lease of a run folder. Removes what interrupted saves left in `checkpoints` if the lease
  // does not fit on the disk. Throws user_error if another training uses the folder, an Error (kHardware) if nobody
  // does and the lock is not released.
  RunLock(const Path& run, const Path& checkpoints, const LockTimes& times = {});
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const Lease& lease() const { return *lease_; }
  bool has_lock() const { return has_lock_; }
  // Throws Lease::check's Error once the thread has seen that a newer start has the lease. Costs nothing otherwise,
  // unless the process was stopped: it looks itself then, because it may wake up after the newer start has ended.
  void check() const;

 private:
  void wait_for_lock(const LockTimes& times);
  void wait_for_older_start(const LockTimes& times);
  void try_lock();
  void watch(const LockTimes& times);
  void look();
  void beat();
  void write_beat(const std::string& text);

  const Path run_;
  std::unique_ptr<FileLock> lock_;  // null: an older start still has it
  std::optional<Lease> lease_;
  Descriptor file_;  // the lease's, for beats: never a newer start's
  int64_t beat_at_ = 0, beats_ = 0;
  int misses_ = 0;  // looks in a row that found no lease
  std::atomic<bool> has_lock_ = false, replaced_ = false;
  const double trust_s_;
  std::atomic<std::chrono::steady_clock::time_point> looked_at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hearth::runfolder
