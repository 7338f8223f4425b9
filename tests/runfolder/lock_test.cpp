// SPDX-License-Identifier: Apache-2.0
// Two starts in one run folder: which of them trains.
#include "runfolder/lock.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "checkpoint/retain.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::runfolder {
namespace {

using testing::HasSubstr;

// The environment of a start, without that of the test itself.
class RunLocks : public testing::Test {
 protected:
  RunLocks() { leave_jobs(); }
  ~RunLocks() override { leave_jobs(); }
  static void leave_jobs() {
    for (const char* name : {"HEARTH_JOB", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"}) ::unsetenv(name);
  }
  // True as soon as it is; false after some minutes.
  template <class Condition>
  static bool comes_true(Condition condition) {
    for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return condition();
  }
  // The lease of a training on a host that is not this one.
  void write_lease(int64_t beat, const std::string& job = {}) {
    write_file_atomic(run / "lease", fmt::format("start = 7\nid = 00aa\nhost = elsewhere\nprocess = 12\ntime = "
                                                 "2026-01-31 23:59:59 UTC\n{}beat = {:012}\n",
                                                 job, beat));
  }
  std::unique_ptr<FileLock> lock_of_another() { return FileLock::try_lock(run / kLockFile); }

  test::ScratchFolder folder;
  const Path& run = folder.path();
  const Path checkpoints = folder / "checkpoints";
  LockTimes times{.older_start_s = 0.1, .dead_host_s = 0.2, .beat_s = 0.02, .end_s = 3600};
};

TEST_F(RunLocks, ShowThatTheirTrainingLivesAndThatItEnded) {
  {
    const RunLock lock(run, checkpoints, times);
    EXPECT_TRUE(lock.has_lock());
    EXPECT_TRUE(comes_true([&] { return read_lease(run)->beat > 2; }));
    EXPECT_TRUE(read_lease(run)->runs_here());
    lock.check();
    EXPECT_EQ(lock_of_another(), nullptr);
  }
  EXPECT_TRUE(read_lease(run)->ended);
  EXPECT_FALSE(read_lease(run)->runs_here());
  EXPECT_NE(lock_of_another(), nullptr);
}

TEST_F(RunLocks, OfTwoTerminalsTheSecondIsRefused) {
  const RunLock first(run, checkpoints, times);
  const Error error = test::error_of([&] { RunLock second(run, checkpoints, times); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "another training runs in " + run.string());
  EXPECT_THAT(error.why(), HasSubstr(fmt::format("it is process {} on ", ::getpid())));
  EXPECT_EQ(first.lease().number(), 1);
  first.lease().check();
  // Also in one job, where both were started by hand, and where another job trains.
  ::setenv("SLURM_JOB_ID", "12", 1);
  EXPECT_EQ(test::error_of([&] { RunLock second(run, checkpoints, times); }).code(), ExitCode::kUser);
  ::setenv("HEARTH_JOB", "12", 1);
  EXPECT_EQ(test::error_of([&] { RunLock second(run, checkpoints, times); }).code(), ExitCode::kUser);
}

TEST_F(RunLocks, ATrainingOfAnotherHostIsKnownByItsBeats) {
  const auto theirs = lock_of_another();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    for (int64_t beat = 1; !stop; ++beat) write_lease(beat);
  });
  times.dead_host_s = 3600;
  const Error error = test::error_of([&] { RunLock second(run, checkpoints, times); });
  stop = true;
  other.join();
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.why(), HasSubstr("it is process 12 on elsewhere; two trainings would overwrite"));
  EXPECT_EQ(read_lease(run)->start, 7);
}

TEST_F(RunLocks, OfADeadHostAreWaitedFor) {
  write_lease(5);
  auto theirs = lock_of_another();
  const Error error = test::error_of([&] { RunLock second(run, checkpoints, times); });
  EXPECT_EQ(error.code(), ExitCode::kHardware);  // a job tries again
  EXPECT_THAT(error.message(), HasSubstr("run.lock is locked by process 12 on elsewhere, which shows no sign of life"));
  EXPECT_THAT(error.why(), HasSubstr("it was not released within"));
  times.dead_host_s = 3600;
  std::future<bool> second =
      std::async(std::launch::async, [&] { return RunLock(run, checkpoints, times).has_lock(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  theirs.reset();
  EXPECT_TRUE(second.get());
  EXPECT_EQ(read_lease(run)->start, 8);
}

// Somebody deletes old checkpoints, and leaves no name.
TEST_F(RunLocks, WithoutAnyLeaseAreWaitedFor) {
  auto theirs = lock_of_another();
  const Error error = test::error_of([&] { RunLock second(run, checkpoints, times); });
  EXPECT_EQ(error.code(), ExitCode::kHardware);
  EXPECT_THAT(error.message(), HasSubstr("run.lock is locked by a process that left no name"));
}

TEST_F(RunLocks, AnOlderStartOfTheJobMakesWay) {
  ::setenv("HEARTH_JOB", "12", 1);
  std::optional<RunLock> first(std::in_place, run, checkpoints, times);
  ::setenv("HEARTH_JOB", "13", 1);  // the next of the chain
  times.older_start_s = 3600;
  std::future<bool> second = std::async(std::launch::async, [&] {
    const RunLock lock(run, checkpoints, times);
    lock.lease().check();
    return lock.has_lock();
  });
  EXPECT_TRUE(comes_true([&] {
    try {
      first->check();
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kHardware);
      EXPECT_THAT(error.message(), HasSubstr("this training was replaced by another start"));
      return true;
    }
  }));
  first.reset();  // it ends
  EXPECT_TRUE(second.get());
}

// It hangs on a host that nobody reaches. The lock is taken as soon as it is free, to keep others out.
TEST_F(RunLocks, AStartOfTheJobGoesOnWithoutTheLockOfAnOlderOne) {
  ::setenv("SLURM_JOB_ID", "12", 1);
  write_lease(5, "job = 12\n");
  auto theirs = lock_of_another();
  ::setenv("SLURM_RESTART_COUNT", "1", 1);  // of a script of one's own: Slurm has put it back into the queue
  const RunLock lock(run, checkpoints, times);
  EXPECT_FALSE(lock.has_lock());
  EXPECT_EQ(lock.lease().number(), 8);
  lock.lease().check();
  theirs.reset();
  EXPECT_TRUE(comes_true([&] { return lock.has_lock(); }));
  EXPECT_EQ(lock_of_another(), nullptr);
}

// The main thread waits for ranks that are not there.
TEST_F(RunLocks, ATrainingThatWasReplacedIsEndedIfItHangs) {
  times.end_s = 0;
  EXPECT_EXIT(
      {
        const RunLock lock(run, checkpoints, times);
        Lease::take(run);
        ::pause();
      },
      testing::ExitedWithCode(4), "this training was replaced by another start");
}

// The thread that looks is asleep, as after a SIGSTOP or on a node whose virtual machine was paused.
TEST_F(RunLocks, AProcessThatWasStoppedLooksItselfBeforeItGoesOn) {
  times.beat_s = 3600;
  times.trust_s = 0;
  const RunLock lock(run, checkpoints, times);
  lock.check();
  Lease::take(run);
  EXPECT_THAT(test::error_of([&] { lock.check(); }).message(), HasSubstr("was replaced by another start"));
}

TEST_F(RunLocks, AFileSystemThatIsAwayForAMomentIsNoNewerStart) {
  const RunLock lock(run, checkpoints, times);
  std::filesystem::create_symlink(".", run / "away");
  std::filesystem::rename(run / "away", run / "lease");  // a folder cannot be read
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  lock.check();
  EXPECT_EQ(test::error_of([&] { lock.lease().check(); }).code(), ExitCode::kHardware);  // a save wants to know
  std::filesystem::remove(run / "lease");
  EXPECT_TRUE(comes_true([&] {
    try {
      lock.check();
      return false;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("lease is gone or damaged"));
      return true;
    }
  }));
}

TEST_F(RunLocks, KnowWhichJobReplacesWhich) {
  const LeaseHolder by_hand{.host = "a"}, of_slurm{.host = "a", .job = "12"},
      submitted{.host = "a", .job = "12", .submitted = true};
  const JobOfStart none, first{.job = "12"}, again{.job = "12", .requeues = 1}, other{.job = "13", .requeues = 1},
      next{.job = "13", .submitted = true};
  for (const auto& holder : {by_hand, of_slurm, submitted}) {
    EXPECT_FALSE(none.replaces(holder));
    EXPECT_FALSE(first.replaces(holder));
    EXPECT_FALSE(other.replaces(holder));
    EXPECT_EQ(again.replaces(holder), holder.job == "12");
    EXPECT_EQ(next.replaces(holder), holder.submitted);
  }
  ::setenv("SLURM_JOB_ID", "12", 1);
  ::setenv("SLURM_RESTART_COUNT", "3", 1);
  EXPECT_EQ(job_of_start().job, "12");
  EXPECT_EQ(job_of_start().requeues, 3);
  EXPECT_FALSE(job_of_start().submitted);
  ::setenv("HEARTH_JOB", "local-5", 1);
  EXPECT_EQ(job_of_start().job, "local-5");
  EXPECT_TRUE(job_of_start().submitted);
}

}  // namespace
}  // namespace hearth::runfolder
