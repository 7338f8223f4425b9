#include "comm/meeting.h"

#include <algorithm>

#include "base/error.h"
#include "base/quantity.h"
#include "comm/group.h"

namespace hearth::comm {

namespace {

std::string describe(const Call& call) {
  if (call.numel < 0) return call.operation;
  return fmt::format("{} of {} x {}", call.operation, call.numel, c10::toString(call.type));
}

}  // namespace

Meeting::Meeting(int64_t size, double timeout_s)
    : timeout_s_(timeout_s),
      calls_(static_cast<size_t>(size)),
      entered_(static_cast<size_t>(size)),
      ended_(static_cast<size_t>(size)) {}

void Meeting::enter(int64_t rank, const Call& call) {
  std::unique_lock lock(mutex_);
  if (aborted_) throw Aborted{};
  calls_[static_cast<size_t>(rank)] = call;
  entered_[static_cast<size_t>(rank)] = true;
  const uint64_t entry = num_entries_;
  if (++num_entered_ == size()) {
    difference_ = difference();
    num_entered_ = 0;
    std::fill(entered_.begin(), entered_.end(), false);
    ++num_entries_;
    changed_.notify_all();
  } else {
    // A completed entry takes precedence over an abort, because the others wait for this rank to leave.
    const bool woken = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s_),
                                         [&] { return num_entries_ != entry || aborted_ || num_ended_ > 0; });
    if (num_entries_ == entry) {
      if (aborted_) throw Aborted{};
      aborted_ = true;  // the group is broken: late ranks must not wait for this one
      changed_.notify_all();
      if (woken) {
        throw Error(ExitCode::kBug, fmt::format("rank {} waits in {} for ranks that have ended: {}", rank,
                                                describe(call), ranks_where(ended_, true)));
      }
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} waited {} in {}; not arrived: {}", rank, format_duration(timeout_s_),
                              describe(call), ranks_where(entered_, false)),
                  "a rank hangs, is far slower than the others, or waits for a disk",
                  "if the ranks are merely slow, raise comm.train_timeout_seconds");
    }
  }
  if (!difference_.empty()) throw Error(ExitCode::kBug, difference_);
}

void Meeting::leave() {
  std::unique_lock lock(mutex_);
  const uint64_t departure = num_departures_;
  if (++num_left_ == size()) {
    num_left_ = 0;
    ++num_departures_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return num_departures_ != departure; });
  }
}

void Meeting::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void Meeting::end(int64_t rank) {
  const std::lock_guard lock(mutex_);
  ended_[static_cast<size_t>(rank)] = true;
  ++num_ended_;
  changed_.notify_all();
}

std::string Meeting::ranks_where(const std::vector<bool>& flags, bool value) const {
  std::string list;
  for (size_t r = 0; r < flags.size(); ++r) {
    if (flags[r] == value) list += fmt::format("{}rank {}", list.empty() ? "" : ", ", r);
  }
  return list;
}

std::string Meeting::difference() const {
  for (size_t r = 1; r < calls_.size(); ++r) {
    const std::string here = describe(calls_[r]), there = describe(calls_[0]);
    if (here != there) return fmt::format("ranks disagree: rank 0 is in {}, rank {} in {}", there, r, here);
  }
  return {};
}

}  // namespace hearth::comm
