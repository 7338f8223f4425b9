// SPDX-License-Identifier: Apache-2.0
// Watches a process's NCCL calls in a thread of its own, from their enqueueing to their end on the GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/device_order.h"
#include "comm/nccl_library.h"

namespace hearth::comm {

class NcclWatch {
 public:
  struct Limits {
    std::function<double()> call_s;  // as of now
    double abort_s;
    // When any rank last gave a sign of life, on the steady clock: a call's time begins again with each sign. Empty:
    // ranks give no signs.
    std::function<double()> sign_s{};
    // Called in place of `fail` for a call that takes too long, because it is not known here which rank hangs. Empty:
    // `fail`.
    std::function<void(const Error&)> hang{};
  };
  // `order` null: calls are done when they return. `fail` is called from this object's threads, once a failure. The
  // arguments must outlive this.
  NcclWatch(const NcclLibrary& library, int64_t rank, std::shared_ptr<const DeviceOrder> order, Limits limits,
            std::function<void(const Error&)> fail);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(nccl::Communicator comm);
  std::vector<nccl::Communicator> take_comms();
  // Aborts all communicators: their calls then return. If NCCL does not return within abort_s, the process fails and
  // ends, because the error must reach the other ranks.
  void abort();

  // After a result that says that another rank ended or aborted: waits for some seconds, unless this rank aborts, too.
  // The other rank knows the reason. If it can still tell, rank 0's answer ends this process meanwhile.
  void let_others_speak();

  // Makes one call. Its time begins when all earlier calls have ended. A call that takes more than call_s is a failure,
  // and the error names it. `numel` < 0: the call has no tensor, such as the start.
  template <class Call>
  int watched(const char* operation, int64_t numel, const Call& call) {
    begin(operation, numel);
    const int result = call();
    end();
    return result;
  }

  // Records the end of the flight recorder's call `flight_number` (trace/flight_recorder.h) when the latest call here
  // ends. False if that call has already ended, or was never begun.
  bool record_end_of_latest(uint64_t flight_number);

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    const char* operation;
    int64_t numel;
    Clock::time_point begun;  // its turn
    bool enqueued = false;
    StreamMark mark = nullptr;
    std::vector<uint64_t> flight_numbers = {};
    bool has_ended() const { return enqueued && (!mark || mark->query()); }
  };

  void begin(const char* operation, int64_t numel);
  void end();
  void look();
  void drop_ended();
  // An error that NCCL reported later, and its result.
  std::optional<std::pair<Error, int>> problem() const;
  std::optional<Error> late_call() const;
  Error too_slow(const Call& call, double waited_s) const;

  const NcclLibrary& library_;
  const int64_t rank_;
  const std::shared_ptr<const DeviceOrder> order_;
  const Limits limits_;
  const std::function<void(const Error&)> fail_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool ending_ = false, has_aborted_ = false;
  std::vector<nccl::Communicator> comms_;
  std::deque<Call> calls_;
  std::thread thread_;
};

}  // namespace hearth::comm
