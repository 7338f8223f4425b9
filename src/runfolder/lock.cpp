// SPDX-License-Identifier: Apache-2.0
#include "runfolder/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/quantity.h"
#include "checkpoint/retain.h"

namespace hearth::runfolder {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr double kSayAfter_s = 1;  // a wait that is shorter is not worth a line
constexpr int kMisses = 3;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A lease that cannot be read now is looked at again later.
std::optional<LeaseHolder> lease_now(const Path& run) {
  try {
    return read_lease(run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

[[noreturn]] void refuse(const Path& run, const LeaseHolder& holder) {
  throw user_error(fmt::format("another training runs in {}", run.string()),
                   fmt::format("it is {}; two trainings would overwrite each other's checkpoints", holder.place()),
                   "wait for it, stop it, or give this one a folder of its own: --set job.dump_folder=DIR");
}

// On a full disk the rest of the save that filled it may take the last bytes.
Lease take_lease(const Path& run, const Path& checkpoints) {
  try {
    return Lease::take(run);
  } catch (const Error& e) {
    if (e.code() != ExitCode::kHardware) throw;
    const std::vector<std::string> removed = checkpoint::remove_leftovers(checkpoints);
    if (removed.empty()) throw;
    for (const std::string& name : removed)
      log_message(LogLevel::kWarning, fmt::format("removed {}, left by an interrupted save", name));
  }
  return Lease::take(run);
}

}  // namespace

RunLock::RunLock(const Path& run, const Path& checkpoints, const LockTimes& times)
    : run_(run), trust_s_(times.trust_s), looked_at_(Clock::now()) {
  try_lock();
  const std::optional<LeaseHolder> holder = has_lock_ ? std::nullopt : lease_now(run);
  const bool replaces = holder && job_of_start().replaces(*holder);
  if (!has_lock_ && !replaces) wait_for_lock(times);
  lease_.emplace(take_lease(run, checkpoints));
  if (!has_lock_) wait_for_older_start(times);
  // The same file as long as the lease is ours: a newer start gives its name to another one.
  file_ = Descriptor(::open(lease_->file().c_str(), O_RDWR | O_CLOEXEC));
  std::array<char, 1024> bytes{};
  const ssize_t size = std::max<ssize_t>(0, ::pread(file_.number(), bytes.data(), bytes.size(), 0));
  const std::string_view text(bytes.data(), static_cast<size_t>(size));
  const size_t at = text.find("beat = ");
  beat_at_ = static_cast<int64_t>(at + std::string_view("beat = ").size());
  if (at == std::string_view::npos || text.find(lease_->id()) == std::string_view::npos) file_.close();
  thread_ = std::thread([this, times] { watch(times); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  write_beat("ended       ");
}

void RunLock::check() const {
  if (replaced_) return lease_->check();
  if (seconds_since(looked_at_) < trust_s_) return;
  if (const auto now = lease_now(run_); now && now->id != lease_->id()) lease_->check();
}

void RunLock::try_lock() {
  lock_ = FileLock::try_lock(run_ / kLockFile);
  has_lock_ = lock_ != nullptr;
}

void RunLock::wait_for_lock(const LockTimes& times) {
  const auto begin = Clock::now();
  std::optional<LeaseHolder> first = lease_now(run_);
  bool said = false;
  for (; !has_lock_; std::this_thread::sleep_for(kPoll), try_lock()) {
    const std::optional<LeaseHolder> now = lease_now(run_);
    if (now && now->runs_here()) refuse(run_, *now);
    if (now && first && (now->id != first->id || now->beat != first->beat)) refuse(run_, *now);
    if (!first) first = now;
    const std::string who = first ? first->place() + ", which shows no sign of life" : "a process that left no name";
    if (const double waited_s = seconds_since(begin); waited_s > times.dead_host_s)
      throw Error(ExitCode::kHardware, fmt::format("{} is locked by {}", (run_ / kLockFile).string(), who),
                  fmt::format("it was not released within {}", format_duration(waited_s)),
                  "end that process; if its host is down for good, remove the file, and start again");
    if (said || seconds_since(begin) < 2 * times.beat_s + kSayAfter_s) continue;
    said = true;
    log_message(LogLevel::kWarning, fmt::format("waiting for the lock of {}: it belongs to {}", run_.string(), who));
  }
}

void RunLock::wait_for_older_start(const LockTimes& times) {
  const auto begin = Clock::now();
  bool said = false;
  for (; !has_lock_; std::this_thread::sleep_for(kPoll), try_lock()) {
    lease_->check();
    const double waited_s = seconds_since(begin);
    if (!said && waited_s > kSayAfter_s)
      log_message(LogLevel::kWarning, fmt::format("an older start of this run still has the lock of {}: it ends when "
                                                  "it sees that this one replaces it",
                                                  run_.string()));
    said = said || waited_s > kSayAfter_s;
    if (waited_s < times.older_start_s) continue;
    log_message(LogLevel::kWarning,
                fmt::format("the older start has not ended within {}: this one goes on, and the older one can write no "
                            "checkpoint any more",
                            format_duration(waited_s)));
    return;
  }
}

void RunLock::watch(const LockTimes& times) {
  const NoProgress looks_only;   // or no rank that hangs would be found: this thread reads the lease for ever
  auto last_own = Clock::now();  // when the lease was not yet seen to be another's
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(times.beat_s), [this] { return stop_; })) {
    lock.unlock();
    if (!replaced_) last_own = Clock::now();  // before the look: the main thread has end_s from when it can know
    look();
    if (seconds_since(last_own) > times.end_s) {
      // The main thread is in a call that does not return. The newer start may go on without waiting for it.
      try {
        lease_->check();
        replaced_ = false;  // the file was away, and has come back
        misses_ = 0;
      } catch (const Error& error) {
        log_message(LogLevel::kError, error.what());
        std::fflush(nullptr);
        std::_Exit(static_cast<int>(ExitCode::kHardware));
      }
    }
    lock.lock();
  }
}

void RunLock::look() {
  beat();
  try {
    const auto now = read_lease(run_);
    misses_ = now ? 0 : misses_ + 1;
    // A file system that is away for a moment has no lease either.
    if ((now && now->id != lease_->id()) || misses_ >= kMisses) replaced_ = true;
    if (!has_lock_ && !replaced_) try_lock();
    looked_at_ = Clock::now();
  } catch (const Error&) {  // no answer is no news; a save looks again
  }
}

void RunLock::beat() { write_beat(fmt::format("{:012}", ++beats_)); }

void RunLock::write_beat(const std::string& text) {
  if (::pwrite(file_.number(), text.data(), text.size(), beat_at_) < 0) return;
  // At a close, NFS sends what was written. A local disk need not be woken up.
  Descriptor(::dup(file_.number())).close();
}

}  // namespace hearth::runfolder
