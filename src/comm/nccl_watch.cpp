// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_watch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "base/quantity.h"
#include "comm/notes/notes.h"
#include "trace/flight_recorder.h"

namespace hearth::comm {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr auto kOthersFirst = std::chrono::seconds(3);

}  // namespace

NcclWatch::NcclWatch(const NcclLibrary& library, int64_t rank, std::shared_ptr<const DeviceOrder> order, Limits limits,
                     std::function<void(const Error&)> fail)
    : library_(library),
      rank_(rank),
      order_(std::move(order)),
      limits_(std::move(limits)),
      fail_(std::move(fail)),
      thread_([this] { look(); }) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclWatch::add(nccl::Communicator comm) {
  const std::lock_guard lock(mutex_);
  comms_.push_back(comm);
}

std::vector<nccl::Communicator> NcclWatch::take_comms() {
  const std::lock_guard lock(mutex_);
  return std::exchange(comms_, {});
}

void NcclWatch::let_others_speak() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kOthersFirst, [this] { return ending_ || has_aborted_; });
}

void NcclWatch::abort() {
  std::vector<nccl::Communicator> comms;
  {
    const std::lock_guard lock(mutex_);
    has_aborted_ = true;
    comms.swap(comms_);
  }
  changed_.notify_all();
  if (comms.empty()) return;
  std::promise<void> returned;
  std::thread guard([this, come_back = returned.get_future()] {
    if (come_back.wait_for(std::chrono::duration<double>(limits_.abort_s)) == std::future_status::ready) return;
    fail_(Error(ExitCode::kHardware,
                fmt::format("rank {} failed, and NCCL did not end its calls within {}", rank_,
                            format_duration(limits_.abort_s)),
                "a GPU or the fabric does not answer any more; the rank's own error was not printed",
                "see the driver's log of its host (dmesg, nvidia-smi -q)"));
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(ExitCode::kHardware));
  });
  // Outside of the lock: a call that is blocked in NCCL may need it to return.
  for (nccl::Communicator comm : comms) library_.api().CommAbort(comm);
  returned.set_value();
  guard.join();
}

void NcclWatch::begin(const char* operation, int64_t numel) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({operation, numel, Clock::now()});
}

void NcclWatch::end() {
  StreamMark mark = order_ ? order_->mark() : nullptr;
  const std::lock_guard lock(mutex_);
  calls_.back().enqueued = true;
  calls_.back().mark = std::move(mark);
}

bool NcclWatch::record_end_of_latest(uint64_t flight_number) {
  const std::lock_guard lock(mutex_);
  if (calls_.empty() || (calls_.size() == 1 && calls_.back().has_ended())) return false;
  calls_.back().flight_numbers.push_back(flight_number);
  return true;
}

void NcclWatch::look() {
  if (order_) order_->set_device();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return ending_; })) {
    drop_ended();
    const std::optional<std::pair<Error, int>> found = problem();
    const std::optional<Error> late = found ? std::nullopt : late_call();
    if (!found && !late) continue;
    lock.unlock();
    if (late) return limits_.hang ? limits_.hang(*late) : fail_(*late);
    if (found->second == nccl::kRemoteError) let_others_speak();
    lock.lock();
    if (ending_ || has_aborted_) return;  // this rank has an error of its own
    lock.unlock();
    return fail_(found->first);
  }
  drop_ended();
}

void NcclWatch::drop_ended() {
  while (!calls_.empty() && calls_.front().has_ended()) {
    for (const uint64_t number : calls_.front().flight_numbers) trace::end_flight_call(number);
    calls_.pop_front();
    if (!calls_.empty()) calls_.front().begun = Clock::now();
  }
}

std::optional<std::pair<Error, int>> NcclWatch::problem() const {
  for (nccl::Communicator comm : comms_) {
    int error = nccl::kSuccess;
    library_.api().CommGetAsyncError(comm, &error);
    if (error == nccl::kSuccess || error == nccl::kInProgress) continue;
    const std::string what = fmt::format("NCCL on rank {}: {}", rank_, library_.api().GetErrorString(error));
    return std::pair(
        Error(ExitCode::kHardware, what, library_.api().GetLastError(comm), "see the output with NCCL_DEBUG=INFO"),
        error);
  }
  return std::nullopt;
}

std::optional<Error> NcclWatch::late_call() const {
  if (calls_.empty()) return std::nullopt;
  const auto seconds = [](Clock::time_point at) {
    return std::chrono::duration<double>(at.time_since_epoch()).count();
  };
  const double begun_s = seconds(calls_.front().begun);
  const double since_s = limits_.sign_s ? std::max(begun_s, limits_.sign_s()) : begun_s;
  const double now_s = seconds(Clock::now());
  if (now_s - since_s < limits_.call_s()) return std::nullopt;
  return too_slow(calls_.front(), now_s - begun_s);
}

Error NcclWatch::too_slow(const Call& call, double waited_s) const {
  const std::string waited = fmt::format("rank {} waited {} in {}", rank_, format_duration(waited_s), call.operation);
  if (call.numel < 0)
    return Error(ExitCode::kHardware, waited, "another rank did not come, or its GPU or the fabric does not answer",
                 fmt::format("see the other ranks' logs, and the output with NCCL_DEBUG=INFO; {}", kLimitOfCalls));
  return Error(ExitCode::kHardware, fmt::format("{} of {} elements through NCCL", waited, call.numel),
               "another rank did not make the call, or the fabric does not deliver",
               fmt::format("see the other ranks' logs; {}", kLimitOfCalls));
}

}  // namespace hearth::comm
