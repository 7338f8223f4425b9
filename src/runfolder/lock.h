// SPDX-License-Identifier: Apache-2.0
// How a start gets a run folder for itself, and keeps it.
//
// RUN/run.lock is locked during a training. A start that finds it locked does one of these:
//   - Its job was started again (runfolder/lease.h: JobOfStart::replaces). The older start still computes on a host
//   that was cut off, or its host is dead and the file system has not noticed. The new start takes the lease, then
//   waits until the older one sees that and ends. After `older_start_s` it continues without the lock, because the
//   older start cannot write a checkpoint any more.
//   - Else, if the other training lives, the start is refused: two people or two terminals use one folder. A process on
//   this host is looked up; a training on another host shows its life by its beats.
//   - Else the other host is dead, and the start waits until the file system releases the lock.
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
  double trust_s = 2 * kBeat_s;  // after this time, a look at the lease no longer shows who has it
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
  // Throws Lease::check's Error once the thread has seen that a newer start has the lease. Reads no file otherwise,
  // unless the thread's last look is older than `trust_s`: a stopped process may wake up after the newer start has
  // ended.
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
